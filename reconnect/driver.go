//go:build !js

package reconnect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/longwire/longwire/wire"
)

// driver is one Run of a Client: it turns the actions of the machine into I/O.
type driver struct {
	*Client
	ctx       context.Context //nolint:containedctx // the life of this Run
	wg        sync.WaitGroup  // of the callbacks and probes
	linksWG   sync.WaitGroup
	stalled   bool // the handlers are behind: nothing is read
	told      bool // what the machine knows of that
	endProbe  context.CancelFunc
	endedWith *EndError
	over      bool // the status stays as it is
}

func (d *driver) loop(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	d.handle(Start{})
	for {
		if d.endedWith != nil {
			return d.endedWith
		}
		if wait, ok := d.m.Next(time.Now()); ok {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		inbox := d.inbox
		if d.stalled {
			inbox = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.wake:
			d.handleMail()
		case ev := <-inbox:
			d.arrived(ev)
		case <-d.deliveries.room:
			if d.stalled {
				d.stalled = false
				d.handle(Tick{})
			}
		case <-timer.C:
			// What has arrived speaks before the clock does.
			select {
			case ev := <-inbox:
				d.arrived(ev)
			default:
				d.handle(Tick{})
			}
		}
	}
}

// finish settles what is pending, closes the links politely, and lets the
// handlers come to an end; a handler may still send meanwhile.
func (d *driver) finish(delivered <-chan struct{}) {
	d.over = d.endedWith != nil
	d.handle(Stop{})
	d.deliveries.finish()
	for done := false; !done; {
		select {
		case <-d.wake:
		case <-delivered:
			d.mu.Lock()
			d.running = false
			d.mu.Unlock()
			done = true
		}
		d.handleMail()
	}
	d.linksWG.Wait()
}

// arrived handles an event from outside, after all that was asked for before it came:
// a Subscribe before Run is in the first resume.
func (d *driver) arrived(ev Event) {
	d.handleMail()
	d.handle(ev)
}

func (d *driver) handleMail() {
	for _, ev := range d.takeMail() {
		d.handle(ev)
	}
}

func (d *driver) handle(ev Event) {
	switch e := ev.(type) {
	case Closed:
		delete(d.links, e.Conn)
	case begun:
		d.following[e.Stream] = e.s
		ev = e.Subscribe
	case Unsubscribe:
		delete(d.following, e.Stream)
	}
	d.machine.Lock()
	actions := d.m.Handle(time.Now(), ev)
	d.machine.Unlock()
	for _, a := range actions { // nobody but this goroutine calls Handle
		d.act(a)
	}
	if d.told != d.stalled {
		d.told = d.stalled
		d.handle(Stalled{d.stalled})
	}
}

func (d *driver) act(a Action) {
	switch a := a.(type) {
	case FetchURL:
		d.fetchURL(a.Attempt)
	case Dial:
		d.dial(a)
	case Write:
		if l := d.links[a.Conn]; l != nil {
			l.send(a.Data)
		}
	case Abandon:
		if l := d.links[a.Conn]; l != nil {
			delete(d.links, a.Conn)
			l.leave(a.Code, a.Reason)
		}
	case Probe:
		d.probe(a.N)
	case Deliver:
		d.deliver(a)
	case Settle:
		d.settle(a)
	case Report:
		d.report(a.Status)
	case Problem:
		if d.o.Logger != nil {
			d.o.Logger.Warn("longwire: " + a.Text)
		}
		if d.o.OnProblem != nil {
			d.enqueue(func() { d.o.OnProblem(a.Text) })
		}
	}
}

// enqueue hands fn to the delivering goroutine.
func (d *driver) enqueue(fn func()) {
	if d.deliveries.add(fn) {
		d.stalled = true
	}
}

func (d *driver) deliver(a Deliver) {
	if w, ok := a.Frame.(wire.Welcome); ok {
		for _, s := range d.following {
			answer, ok := w.Own, true
			if s.stream != "" {
				answer, ok = w.Subs[s.stream]
			}
			if ok {
				d.enqueue(func() { s.deliver(wire.Subbed{Stream: s.stream, Answer: answer}, 0) })
			}
		}
		return
	}
	if s := d.following[streamOf(a.Frame)]; s != nil {
		d.enqueue(func() { s.deliver(a.Frame, a.Skip) })
	}
}

func streamOf(f wire.Frame) string {
	switch f := f.(type) {
	case wire.Event:
		return f.Stream
	case wire.Events:
		return f.Stream
	case wire.Snapshot:
		return f.Stream
	case wire.Reset:
		return f.Stream
	case wire.Subbed:
		return f.Stream
	}
	return ""
}

func (d *driver) report(s Status) {
	if d.over {
		return
	}
	d.mu.Lock()
	changed := s.State != d.status.State || s.Reason != d.status.Reason
	d.status = s
	d.mu.Unlock()
	if s.State == Ended && s.Cause != CauseClosed {
		d.endedWith = &EndError{Cause: s.Cause, Reason: s.Reason}
	}
	if changed && d.o.Logger != nil {
		d.logState(s)
	}
	if changed && d.o.OnState != nil {
		d.enqueue(func() { d.o.OnState(s) })
	}
}

func (d *driver) logState(s Status) {
	level := slog.LevelInfo
	if s.State == Ended && s.Cause != CauseClosed {
		level = slog.LevelWarn
	}
	args := []any{"state", s.State.String(), "reason", s.Reason, "attempt", s.Attempt}
	if s.Cause != "" {
		args = append(args, "cause", s.Cause)
	}
	if !s.NextRetry.IsZero() {
		args = append(args, "next", s.NextRetry)
	}
	d.o.Logger.Log(d.ctx, level, "longwire: state", args...)
}

func (d *driver) fetchURL(attempt uint64) {
	d.wg.Go(func() {
		ctx, cancel := context.WithTimeout(d.ctx, d.m.p.URLTimeout)
		defer cancel()
		target, err := d.o.URL(ctx)
		if err == nil {
			if u, parseErr := url.Parse(target); parseErr != nil || u.Host == "" || u.Fragment != "" {
				err = errors.New("it must be absolute and have no fragment")
			}
		}
		if err != nil {
			d.tell(URLFailed{Attempt: attempt, Err: plainError(err)})
			return
		}
		d.tell(URLReady{Attempt: attempt, URL: target})
	})
}

func (d *driver) headers(ctx context.Context) (http.Header, error) {
	if d.o.Header == nil {
		return nil, nil //nolint:nilnil // no headers, no error
	}
	return d.o.Header(ctx)
}

// tell hands an event to the loop; it gives up when the Run is over.
func (d *driver) tell(ev Event) {
	select {
	case d.inbox <- ev:
	case <-d.ctx.Done():
	}
}

func (d *driver) probe(n uint64) {
	if d.endProbe != nil {
		d.endProbe()
	}
	ctx, cancel := context.WithTimeout(d.ctx, d.m.p.ProbeTimeout)
	d.endProbe = cancel
	d.wg.Go(func() {
		defer cancel()
		d.tell(d.ask(ctx, n))
	})
}

func (d *driver) ask(ctx context.Context, n uint64) ProbeDone {
	done := ProbeDone{N: n}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.o.Probe, http.NoBody)
	if err == nil {
		var header http.Header
		if header, err = d.headers(ctx); err == nil && header != nil {
			req.Header = header.Clone()
		}
	}
	if err != nil {
		done.Err = plainError(err)
		return done
	}
	req.Header.Set("Cache-Control", "no-store")
	client := *d.o.HTTPClient
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		done.Err = plainError(err)
		return done
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10))
	done.Status = resp.StatusCode
	done.Marker = resp.Header.Get("Longwire-Probe") == strconv.Itoa(wire.Version)
	done.Redirected = resp.StatusCode/100 == 3
	done.RetryAfter = parseRetryAfter(resp.Header.Get("Retry-After"), time.Now())
	return done
}

// parseRetryAfter reads the value of a Retry-After header, seconds or a date
// (RFC 9110 section 10.2.3), as seen at now. Anything else is 0.
func parseRetryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second //nolint:gosec // 31 bits
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// plainError is the text of err without the URL, which may hold a token: without
// what is in quotes, too, for there libraries repeat what they could not read, a
// redirect's target or the answer of a server that echoes.
func plainError(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return quoted.ReplaceAllString(fmt.Sprint(err), `"…"`)
}

var quoted = regexp.MustCompile(`(?s)"(\\.|[^"\\])*("|$)`)
