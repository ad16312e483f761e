package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipeBytes is what one direction holds before its writer blocks, in the role of
// the two kernel buffers of a TCP connection.
const pipeBytes = 64 << 10

// pipe is one direction of a link.
type pipe struct {
	mu    sync.Mutex
	cond  sync.Cond
	buf   []byte
	muted bool
	err   error // after a reset, for both ends

	latency time.Duration
	onWay   []parcel // what of buf, and of the end, has not arrived; oldest first
	arrived int      // bytes of buf that can be read
	ended   bool     // the end has arrived: nothing follows
	timer   *time.Timer

	readClosed, writeClosed     bool
	readDeadline, writeDeadline deadline
}

// parcel is what one write put on its way: n bytes, or the end.
type parcel struct {
	n   int
	end bool
	at  time.Time // of arrival
}

func newPipe() *pipe {
	p := &pipe{}
	p.cond.L = &p.mu
	return p
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readClosed:
			return 0, net.ErrClosed
		case p.err != nil:
			return 0, p.err
		case p.readDeadline.expired:
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case !p.muted && p.arrived > 0:
			n := copy(b, p.buf[:p.arrived])
			p.buf = p.buf[n:]
			p.arrived -= n
			p.cond.Broadcast()
			return n, nil
		case !p.muted && p.ended:
			return 0, io.EOF
		}
		p.cond.Wait()
	}
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	written := 0
	for {
		switch {
		case p.writeClosed:
			return written, net.ErrClosed
		case p.err != nil:
			return written, p.err
		case p.writeDeadline.expired:
			return written, os.ErrDeadlineExceeded
		case p.readClosed && !p.muted:
			return written, syscall.EPIPE
		}
		if n := min(pipeBytes-len(p.buf), len(b)); n > 0 {
			p.buf = append(p.buf, b[:n]...)
			b = b[n:]
			written += n
			p.carry(parcel{n: n})
		}
		if len(b) == 0 {
			return written, nil
		}
		p.cond.Wait()
	}
}

func (p *pipe) mute(muted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.muted = muted
	p.cond.Broadcast()
}

// carry lets a parcel arrive after the latency, never before an earlier one. It
// needs p.mu.
func (p *pipe) carry(c parcel) {
	c.at = time.Now().Add(p.latency)
	if n := len(p.onWay); n > 0 && c.at.Before(p.onWay[n-1].at) {
		c.at = p.onWay[n-1].at
	}
	p.onWay = append(p.onWay, c)
	if len(p.onWay) == 1 {
		p.arrive()
	}
}

// arrive hands over what is due, and comes back for the rest. It needs p.mu.
func (p *pipe) arrive() {
	for len(p.onWay) > 0 {
		if wait := time.Until(p.onWay[0].at); wait > 0 {
			p.timer = time.AfterFunc(wait, func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.arrive()
			})
			break
		}
		p.arrived += p.onWay[0].n
		p.ended = p.ended || p.onWay[0].end
		p.onWay = p.onWay[1:]
	}
	p.cond.Broadcast()
}

// forget loses what was under way. It needs p.mu.
func (p *pipe) forget() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.buf, p.onWay, p.arrived = nil, nil, 0
}

func (p *pipe) delay(latency time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency = latency
}

func (p *pipe) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = syscall.ECONNRESET
	}
	p.forget()
	p.cond.Broadcast()
}

// closeRead reports whether this call was the one that closed.
func (p *pipe) closeRead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readClosed {
		return false
	}
	p.readClosed = true
	p.readDeadline.stop()
	p.cond.Broadcast()
	return true
}

func (p *pipe) isReadClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readClosed
}

func (p *pipe) closeWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.writeClosed {
		p.writeClosed = true
		p.carry(parcel{end: true})
	}
	p.writeDeadline.stop()
	p.cond.Broadcast()
}

func (p *pipe) setReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readClosed {
		return net.ErrClosed
	}
	p.readDeadline.set(p, t)
	return nil
}

func (p *pipe) setWriteDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writeClosed {
		return net.ErrClosed
	}
	p.writeDeadline.set(p, t)
	return nil
}

// deadline is guarded by the mutex of its pipe.
type deadline struct {
	timer   *time.Timer
	at      time.Time
	expired bool
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// set moves the deadline to t, the zero time meaning none, and wakes whoever
// waits, so that it looks at the new one.
func (d *deadline) set(p *pipe, t time.Time) {
	d.stop()
	d.at = t
	d.expired = !t.IsZero() && !t.After(time.Now())
	if !t.IsZero() && !d.expired {
		d.timer = time.AfterFunc(time.Until(t), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			// A timer that was stopped too late must not expire its successor.
			if d.at.Equal(t) {
				d.expired = true
				p.cond.Broadcast()
			}
		})
	}
	p.cond.Broadcast()
}
