package server_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// follower is a strict client of one stream: it holds the server to the rules of
// positions and keeps a sum, which only exact delivery gets right.
type follower struct {
	w       *world
	c       *client
	session string
	batch   bool
	gen     uint64

	epoch    string
	has      bool // there is a position
	position uint64
	waiting  bool // told resync or reset: a snapshot or reset must come next
	sum      uint64
	broken   bool // a reset without a snapshot: the sum means nothing
}

// steps of a schedule, drawn before the bubble.
type serverStep struct {
	do string
	n  int
}

func serverSteps() *rapid.Generator[[]serverStep] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) serverStep {
		return serverStep{
			do: rapid.SampledFrom([]string{
				"publish", "publish", "publish", "read", "read", "cut", "stall", "resub", "unsub", "wait", "slow", "forget",
			}).Draw(t, "do"),
			n: rapid.IntRange(0, 40).Draw(t, "n"),
		}
	}), 1, 60)
}

// TestEachEventOnceOrOneGapSaidAndBridged runs any schedule of publishes, cuts,
// stalls, resubscriptions and forgotten streams against a strict follower.
func TestEachEventOnceOrOneGapSaidAndBridged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		schedule := serverSteps().Draw(rt, "schedule")
		events := rapid.IntRange(1, 30).Draw(rt, "log")
		mode := rapid.SampledFrom([]string{"snapshot", "slow snapshot", "failing snapshot", "none"}).Draw(rt, "mode")
		batch := rapid.Bool().Draw(rt, "batch")
		var err error
		synctest.Test(t, func(t *testing.T) { err = runSchedule(t, schedule, events, mode, batch) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// counter is the application: its state is the sum of what it published. It knows
// nothing of streams that are forgotten and begin anew.
type counter struct {
	mu               sync.Mutex
	seq, number, sum uint64
	fail             bool
	delay            time.Duration
}

func (a *counter) snapshot(ctx context.Context, _ string) (server.Snapshot, error) {
	select {
	case <-time.After(a.delay):
	case <-ctx.Done():
		return server.Snapshot{}, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail {
		return server.Snapshot{}, fmt.Errorf("as drawn")
	}
	return server.Snapshot{State: strconv.AppendUint(nil, a.sum, 10), HasSeq: true, Seq: a.seq}, nil
}

func (a *counter) publish(srv *server.Server) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.number++
	a.sum += a.number
	var err error
	a.seq, err = srv.Publish(context.Background(), "s", strconv.AppendUint(nil, a.number, 10))
	return err
}

func runSchedule(t *testing.T, schedule []serverStep, events int, mode string, batch bool) error {
	t.Helper()
	app := &counter{fail: mode == "failing snapshot"}
	if mode == "slow snapshot" {
		app.delay = 700 * time.Millisecond
	}
	o := server.Options{Log: stream.Limits{Events: events}}
	if mode != "none" {
		o.Snapshot = app.snapshot
	}
	w := newWorld(t, o)
	f := &follower{w: w, batch: batch}
	if err := app.publish(w.srv); err != nil {
		return err
	}
	for i, s := range schedule {
		if err := f.step(app, s); err != nil {
			return fmt.Errorf("step %d %+v: %w", i, s, err)
		}
	}
	// In the end it is up to date.
	if err := f.connect(); err != nil {
		return err
	}
	if err := app.publish(w.srv); err != nil {
		return err
	}
	if err := f.drain(); err != nil {
		return err
	}
	if f.waiting || f.position != app.seq || !f.broken && f.sum != app.sum {
		return fmt.Errorf("in the end at %d (waiting %v) with sum %d; want %d and %d", f.position, f.waiting, f.sum, app.seq, app.sum)
	}
	return nil
}

func (f *follower) step(app *counter, s serverStep) error {
	switch s.do {
	case "publish":
		for range s.n {
			if err := app.publish(f.w.srv); err != nil {
				return err
			}
		}
	case "read":
		if err := f.connect(); err != nil {
			return err
		}
		synctest.Wait()
		return f.read()
	case "cut":
		f.w.net.Cut()
		synctest.Wait()
		f.c = nil
	case "stall":
		if f.c != nil {
			f.c.link.Mute(s.n%2 == 0, false)
		}
	case "resub":
		if f.c != nil {
			return f.ask()
		}
	case "unsub":
		if f.c != nil {
			if err := f.drain(); err != nil {
				return err
			}
			if f.c != nil {
				f.c.send(`{"t":"unsub","stream":"s"}`)
				return f.ask()
			}
		}
	case "wait":
		time.Sleep(time.Duration(s.n) * 250 * time.Millisecond)
	case "slow":
		time.Sleep(6 * time.Minute) // the log runs empty
	case "forget":
		if s.n > 35 {
			f.w.net.Cut()
			f.c = nil
			time.Sleep(20 * time.Minute) // the stream is forgotten
		}
	}
	return nil
}

// drain lets everything arrive and reads it.
func (f *follower) drain() error {
	f.c.link.Mute(false, false)
	time.Sleep(2 * time.Second)
	synctest.Wait()
	return f.read()
}

// ask sends a sub from the position and reads until it is answered.
func (f *follower) ask() error {
	if err := f.drain(); err != nil || f.c == nil {
		return err
	}
	f.c.send(`{"t":"sub","stream":"s"%s}`, f.wanted())
	return f.drain()
}

func (f *follower) wanted() string {
	if !f.has || f.waiting {
		return ""
	}
	return fmt.Sprintf(`,"after":%d,"epoch":%q`, f.position, f.epoch)
}

func (f *follower) connect() error {
	if f.c != nil {
		if err := f.drain(); err != nil || f.c != nil {
			return err
		}
	}
	f.gen++
	f.c = f.w.dial("ann")
	want := strings.TrimPrefix(f.wanted(), ",")
	f.c.resume(fmt.Sprintf(`"session":%q,"gen":%d,"batch":%v,"subs":{"s":{%s}}`, f.session, f.gen, f.batch, want))
	f.session = f.c.welcome.Session
	return f.answered(f.c.welcome.Subs["s"])
}

func (f *follower) answered(a wire.Answer) error {
	covered := f.has && !f.waiting && a.Epoch == f.epoch && a.First <= f.position && f.position <= a.Seq
	switch {
	case covered && a.Resync:
		return fmt.Errorf("position %d is covered and was voided by %+v", f.position, a)
	case f.has && !f.waiting && !covered && !a.Resync:
		return fmt.Errorf("position %d of %s is not covered and was taken by %+v", f.position, f.epoch, a)
	case a.Resync:
		f.waiting = true
	case !f.has || f.waiting:
		// From now on: there is no snapshot.
		f.waiting, f.has, f.broken = false, true, true
		f.position = a.Seq
	}
	f.epoch = a.Epoch
	return nil
}

// read takes what has arrived.
func (f *follower) read() error {
	for {
		select {
		case frame, ok := <-f.c.frames:
			if !ok {
				f.c = nil
				return nil
			}
			if err := f.take(frame); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (f *follower) take(frame wire.Frame) error {
	switch g := frame.(type) {
	case wire.Subbed:
		return f.answered(g.Answer)
	case wire.Event:
		return f.events(g.Seq, g.Data)
	case wire.Events:
		if !f.batch {
			return fmt.Errorf("a batch to a client that reads none")
		}
		return f.events(g.From, g.Data...)
	case wire.Snapshot:
		if !f.waiting || g.Epoch != f.epoch {
			return fmt.Errorf("snapshot of %s, waiting %v in %s", g.Epoch, f.waiting, f.epoch)
		}
		f.waiting, f.has, f.broken, f.position = false, true, false, g.Seq
		sum, err := strconv.ParseUint(string(g.State), 10, 64)
		f.sum = sum
		return err
	case wire.Reset:
		if g.Snapshot {
			f.waiting = true
			return nil
		}
		f.waiting, f.has, f.broken, f.position, f.epoch = false, true, true, g.Seq, g.Epoch
	case wire.Heartbeat:
	default:
		return fmt.Errorf("unexpected %s", frame.Append(nil))
	}
	return nil
}

func (f *follower) events(from uint64, data ...wire.Raw) error {
	for i, d := range data {
		seq := from + uint64(i)
		switch {
		case f.waiting:
			return fmt.Errorf("event %d between resync and its snapshot", seq)
		case seq != f.position+1:
			return fmt.Errorf("event %d at position %d", seq, f.position)
		}
		number, err := strconv.ParseUint(string(d), 10, 64)
		if err != nil {
			return err
		}
		f.position = seq
		f.sum += number
	}
	return nil
}
