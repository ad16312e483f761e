package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/longwire/longwire/wire"
)

// followingConn returns a connection that stands at the head of so many streams. It has
// no socket, and its worker does nothing by itself.
func followingConn(t *testing.T, s *Server, topics ...*topic) *conn {
	t.Helper()
	c := newConn(s, Identity{})
	c.worker = s.workers.all[0]
	c.job.state = jobActive
	c.batch = true
	c.mu.Lock()
	for _, topic := range topics {
		f := &follow{conn: c, topic: topic}
		c.follows = append(c.follows, f)
		_, head := topic.log().Bounds()
		c.ask(f, wire.Want{Has: true, Epoch: "e", After: head}, nil)
	}
	c.mu.Unlock()
	o := new(output)
	if _ = c.fill(o); !o.isEmpty() || o.more || c.due.n != 0 {
		t.Fatalf("at the head of all, and it has something to write: %d due", c.due.n)
	}
	c.job = job{state: jobIdle}
	return c
}

func newTestServer(t *testing.T) *Server {
	t.Helper()
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func topicsOf(n int) []*topic {
	topics := make([]*topic, n)
	for i := range topics {
		topics[i] = topicOf(fmt.Sprint("s", i))
	}
	return topics
}

func grow(t *testing.T, topics ...*topic) {
	t.Helper()
	for _, topic := range topics {
		if _, err := topic.log().Append([]byte("1")); err != nil {
			t.Fatal(err)
		}
	}
}

// What an event costs does not grow with the other streams of who is written it: a turn
// looks at those that have grown, and at all of these at once.
func TestATurnLooksAtTheStreamsThatHaveGrown(t *testing.T) {
	topics := topicsOf(100)
	c := followingConn(t, newTestServer(t), topics...)
	for _, n := range []int{1, 3, len(topics)} {
		grow(t, topics[:n]...)
		grow(t, topics[0]) // once more makes no difference
		c.worker.wakeReaders()
		c.follows[0].grown(false) // nor does this
		if c.due.n != n || c.worker.pop(&c.worker.ready) != c || c.worker.pop(&c.worker.ready) != nil {
			t.Fatalf("%d streams have grown: %d are looked at, the connection is not ready once", n, c.due.n)
		}
		o := new(output)
		_ = c.fill(o)
		o.finish()
		if want := uint64(n + 1); o.sent != want || o.more || c.due.n != 0 { //nolint:gosec // a count
			t.Errorf("%d streams have grown: %d events of %d are written, more %v, %d left", n, o.sent, want, o.more, c.due.n)
		}
		c.worker.rest(c, o.more)
	}
}

// A stream that is given up while it has something to say says nothing any more, and the
// others go on.
func TestAStreamThatIsGivenUpIsNotWritten(t *testing.T) {
	topics := topicsOf(3)
	c := followingConn(t, newTestServer(t), topics...)
	grow(t, topics...)
	c.worker.wakeReaders()
	gone := c.follows[1]
	c.mu.Lock()
	c.owe(gone, "a reason", nil)
	c.mu.Unlock()
	c.unfollow(gone.topic.name)
	gone.grown(false) // its worker had taken it before
	o := new(output)
	_ = c.fill(o)
	if got := received(t, o); o.sent != 2 || len(got) != 1 || strings.Contains(got[0], gone.topic.name) || c.due.n != 0 {
		t.Errorf("written %q, %d streams are due; want what is not of %s, and none", got, c.due.n, gone.topic.name)
	}
}

// What few follow does not wait until a crowd was served, even for one in the crowd.
func TestACrowdIsServedApart(t *testing.T) {
	s := newTestServer(t)
	many, few := topicOf("many"), topicOf("few")
	var conns []*conn
	for i := range turnLength + 2 {
		topics := []*topic{many}
		if i == turnLength {
			topics = append(topics, few)
		}
		conns = append(conns, followingConn(t, s, topics...))
	}
	w := conns[0].worker
	lines := func() (ready, crowd int) {
		for c := w.ready.first; c != nil; c = c.job.next {
			ready++
		}
		for c := w.crowd.first; c != nil; c = c.job.next {
			crowd++
		}
		return ready, crowd
	}
	grow(t, many)
	w.wakeReaders()
	if ready, crowd := lines(); ready != 0 || crowd != len(conns) {
		t.Fatalf("%d are ready and %d a crowd, want all %d in the crowd", ready, crowd, len(conns))
	}
	grow(t, few)
	w.wakeReaders()
	if ready, crowd := lines(); ready != 1 || crowd != len(conns)-1 || w.ready.first != conns[turnLength] {
		t.Errorf("%d are ready and %d a crowd, want one who has to be written more than the crowd", ready, crowd)
	}
}

// However connections are woken, taken and put back, each is in one line at most, in
// order, and who has something to do is never left out.
func TestLinesUnderAnySchedule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorker(&Server{})
		conns := make([]*conn, 4)
		for i := range conns {
			conns[i] = &conn{worker: w, job: job{state: jobIdle}}
		}
		lines := map[*line][]*conn{&w.ready: nil, &w.crowd: nil}
		held := make(map[*conn]bool) // in hand, true: woken since
		take := func(l *line) func(*rapid.T) {
			return func(rt *rapid.T) {
				c := w.pop(l)
				if len(lines[l]) == 0 {
					if c != nil {
						rt.Fatal("one was taken from an empty line")
					}
					return
				}
				if c != lines[l][0] {
					rt.Fatal("the first of a line was not taken")
				}
				lines[l], held[c] = lines[l][1:], false
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"wake": func(rt *rapid.T) {
				c, crowd := rapid.SampledFrom(conns).Draw(rt, "connection"), rapid.Bool().Draw(rt, "crowd")
				w.wake(c, crowd)
				_, isHeld := held[c]
				switch {
				case isHeld:
					held[c] = true
				case slices.Contains(lines[&w.ready], c):
				case !crowd:
					lines[&w.crowd] = slices.DeleteFunc(lines[&w.crowd], func(other *conn) bool { return other == c })
					lines[&w.ready] = append(lines[&w.ready], c)
				case !slices.Contains(lines[&w.crowd], c):
					lines[&w.crowd] = append(lines[&w.crowd], c)
				}
			},
			"take from the ready": take(&w.ready),
			"take from the crowd": take(&w.crowd),
			"put back": func(rt *rapid.T) {
				for _, c := range conns {
					if woken, isHeld := held[c]; isHeld {
						more := rapid.Bool().Draw(rt, "more")
						w.rest(c, more)
						delete(held, c)
						if more || woken {
							lines[&w.ready] = append(lines[&w.ready], c)
						}
						return
					}
				}
			},
			"": func(rt *rapid.T) {
				for l, want := range lines {
					var got []*conn
					for c := l.first; c != nil; c = c.job.next {
						if c.job.prev != nil && c.job.prev.job.next != c || c.job.next == nil && l.last != c {
							rt.Fatal("the links of a line do not fit")
						}
						got = append(got, c)
					}
					if !slices.Equal(got, want) || len(got) == 0 && l.last != nil {
						rt.Fatalf("a line has %d connections, want %d", len(got), len(want))
					}
				}
			},
		})
	})
}
