package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

const moveClients = 3

// movePlan is one run with nodes that come and go and a store that they share.
type movePlan struct {
	Snapshots string        // what the application has: "no function", "none", "slowly none", "some", "slowly some"
	Log       int           // events that a log holds
	Latency   time.Duration // of the store, when a connection is attached
	Steps     []simStep
}

var moveVerbs = []string{
	"publish", "publish", "publish", "publish own", "move", "move", "away", "restart", "restart", "renumber",
	"deaf", "deaf", "time", "time", "time", "time", "settle",
}

// moveTimes are drawn by the steps of time, and by what lasts. Nodes drain for 2 s.
var moveTimes = []time.Duration{
	time.Millisecond, 20 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond,
	1200 * time.Millisecond, 2 * time.Second, 3 * time.Second,
}

func drawMoves(t *rapid.T) movePlan {
	step := rapid.Custom(func(t *rapid.T) simStep {
		return simStep{Do: rapid.SampledFrom(moveVerbs).Draw(t, "do"), N: rapid.IntRange(0, 7).Draw(t, "n")}
	})
	return movePlan{
		Snapshots: rapid.SampledFrom([]string{"no function", "none", "slowly none", "some", "slowly some"}).Draw(t, "snapshots"),
		Log:       rapid.SampledFrom([]int{2, 1000}).Draw(t, "log"),
		Latency:   rapid.SampledFrom([]time.Duration{0, 20 * time.Millisecond, 700 * time.Millisecond}).Draw(t, "latency"),
		Steps:     rapid.SliceOfN(step, 5, 40).Draw(t, "steps"),
	}
}

// Whatever nodes and their store do while clients move: each event once and in order,
// and each loss told once, with events between that and the next.
func TestAnyScheduleOfMovesIsLossless(t *testing.T) {
	checks(t, schedules)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawMoves(rt)
		var err error
		synctest.Test(t, func(t *testing.T) {
			t.Helper()
			err = playMoves(t, p)
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// mover is a test with its nodes.
type mover struct {
	*fleet

	p      movePlan
	store  *sharedStore
	ctx    context.Context //nolint:containedctx // that of the test
	nodes  []*sharedNode   // the newest last
	work   sync.WaitGroup  // what lasts
	places []*moved

	mu      sync.Mutex
	begun   time.Time
	lines   []string
	verdict error
}

func playMoves(t *testing.T, p movePlan) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m := &mover{
		fleet: &fleet{t: t}, p: p, store: newSharedStore(), ctx: ctx,
		begun: time.Now(),
	}
	m.startNode()
	var running []<-chan struct{}
	for n := range moveClients {
		running = append(running, m.follow(n))
	}
	m.live()
	for _, s := range p.Steps {
		m.note("-- %+v", s)
		m.step(s)
	}
	m.rest()
	cancel()
	for _, ended := range running {
		<-ended
	}
	m.stop(m.current.Load())
	return m.err()
}

func (m *mover) startNode() {
	own := &sharedNode{sharedStore: m.store, latency: m.p.Latency}
	o := server.Options{
		Store: own.open, RestartTime: time.Second, Spread: time.Second,
		Log: stream.Limits{Events: m.p.Log, Age: 24 * time.Hour},
	}
	if m.p.Snapshots != "no function" {
		o.Snapshot = func(ctx context.Context, name string) (server.Snapshot, error) {
			kind, slow := strings.CutPrefix(m.p.Snapshots, "slowly ")
			_, head := m.store.at(name)
			if slow {
				if err := pause(ctx, 300*time.Millisecond); err != nil {
					return server.Snapshot{}, err
				}
			}
			if kind == "none" {
				return server.Snapshot{}, server.ErrNoSnapshot
			}
			return server.Snapshot{State: fmt.Append(nil, head), HasSeq: true, Seq: head}, nil
		}
	}
	m.start(o)
	m.nodes = append(m.nodes, own)
}

// follow runs a client that follows stream a and its own.
func (m *mover) follow(n int) <-chan struct{} {
	f := &moved{m: m, name: fmt.Sprintf("client %d, a", n), stream: func() string { return "a" }}
	ended := m.add(m.ctx, f.handler())
	client := m.clients[n]
	own := &moved{m: m, name: fmt.Sprintf("client %d, own", n), stream: func() string { return "own/" + client.Status().Session }}
	if _, err := client.Subscribe("", nil, own.handler()); err != nil {
		m.fail("%v", err)
	}
	m.places = append(m.places, f, own)
	return ended
}

func (m *mover) step(s simStep) {
	d := moveTimes[s.N]
	switch s.Do {
	case "publish":
		for range 1 + s.N/2 {
			m.publish("a")
		}
	case "publish own":
		m.publish(m.places[2*(s.N%moveClients)+1].stream())
	case "move":
		m.move()
	case "away", "restart":
		m.store.goAway()
		m.later(d, func() { m.store.comeBack(s.Do == "away") })
	case "renumber":
		m.store.comeBack(false)
	case "deaf":
		n := m.nodes[len(m.nodes)-1]
		if s.N%3 == 0 {
			n = m.nodes[max(len(m.nodes)-2, 0)] // which drains
		}
		n.deafen(true)
		m.later(d, func() { n.deafen(false) })
	case "time":
		time.Sleep(d)
	case "settle":
		synctest.Wait()
	}
}

func (m *mover) later(d time.Duration, do func()) {
	m.work.Go(func() {
		time.Sleep(d)
		do()
	})
}

func (m *mover) publish(name string) {
	if m.store.publish(name) {
		epoch, head := m.store.at(name)
		m.note("published %s as %d of %s", name, head, epoch)
	}
}

// move drains the node that is there and has another one in its place.
func (m *mover) move() {
	old := m.current.Load()
	m.startNode()
	m.work.Go(func() {
		if _, err := old.Drain(context.WithoutCancel(m.ctx), 2*time.Second); err != nil {
			m.fail("Drain: %v", err)
		}
		m.stop(old)
	})
}

// rest waits until nothing is in the way any more, and all is where it should be.
func (m *mover) rest() {
	m.note("-- rest")
	m.work.Wait()
	m.store.comeBack(true)
	for _, f := range m.places {
		m.publish(f.stream())
	}
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		synctest.Wait()
		i := slices.IndexFunc(m.places, func(f *moved) bool { return !f.atHead() })
		if i < 0 || m.err() != nil {
			return
		}
		if time.Since(begun) > time.Minute {
			m.fail("%s is not at the head within a minute", m.places[i].name)
			return
		}
	}
}

func (m *mover) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, fmt.Sprintf("%8v  ", time.Since(m.begun))+fmt.Sprintf(format, args...))
}

func (m *mover) fail(format string, args ...any) {
	m.note("WRONG: "+format, args...)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.verdict == nil {
		m.verdict = errors.New(strings.Join(m.lines, "\n"))
	}
}

func (m *mover) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.verdict
}

// moved is the application behind one stream of one client. Its handlers are called
// one at a time.
type moved struct {
	m      *mover
	name   string
	stream func() string

	known   bool // it was told where it stands
	epoch   string
	seq     uint64
	waiting bool // for a snapshot
}

func (f *moved) handler() reconnect.Handler {
	return reconnect.Handler{
		Event:     f.event,
		Snapshot:  f.snapshot,
		Recovered: f.recovered,
		Refused:   func(err error) { f.m.note("%s: %v", f.name, err) },
	}
}

func (f *moved) wrong(format string, args ...any) {
	f.m.fail("%s at %d of %q: %s", f.name, f.seq, f.epoch, fmt.Sprintf(format, args...))
}

func (f *moved) event(e reconnect.EventInfo) {
	f.m.note("%s: event %d %s", f.name, e.Seq, e.Data)
	var epoch string
	var seq uint64
	if _, err := fmt.Sscanf(strings.Trim(string(e.Data), `"`), "%s %d", &epoch, &seq); err != nil || seq != e.Seq {
		f.wrong("event %d is %s", e.Seq, e.Data)
	}
	if f.waiting || f.known && (epoch != f.epoch || seq != f.seq+1) {
		f.wrong("event %d of %s", seq, epoch)
	}
	f.stand(epoch, seq)
}

func (f *moved) stand(epoch string, seq uint64) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.known, f.waiting, f.epoch, f.seq = true, false, epoch, seq
}

func (f *moved) snapshot(s reconnect.SnapshotInfo) {
	f.m.note("%s: snapshot at %+v", f.name, s.Position)
	if f.known && !f.waiting {
		f.wrong("a snapshot and no word of a gap")
	}
	f.stand(s.Position.Epoch, s.Position.Seq)
}

func (f *moved) recovered(r reconnect.Recovery) {
	f.m.note("%s: %v %+v", f.name, r.Outcome, r.Position)
	switch r.Outcome {
	case reconnect.NothingMissed, reconnect.Replayed:
		if f.waiting {
			f.wrong("%v before the snapshot", r.Outcome)
		}
	case reconnect.GapWithSnapshot:
		f.gap()
		f.waiting = true
	case reconnect.GapWithoutSnapshot:
		if !f.waiting { // else there turned out to be no snapshot
			f.gap()
		}
		f.stand(r.Position.Epoch, r.Position.Seq)
	}
}

// gap judges that one is told.
func (f *moved) gap() {
	epoch, head := f.m.store.at(f.stream())
	if f.waiting {
		f.wrong("a gap while it waits for the snapshot of one")
	}
	if f.known && epoch == f.epoch && head-f.seq <= uint64(f.m.p.Log) { //nolint:gosec // not negative
		f.wrong("a gap, and the log reaches back")
	}
}

func (f *moved) atHead() bool {
	epoch, head := f.m.store.at(f.stream())
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return f.known && !f.waiting && f.epoch == epoch && f.seq == head
}
