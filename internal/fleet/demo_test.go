//go:build unix

package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// A sample is an event of the stream host.
type sample struct {
	T    int64  `json:"t"` // ms since 1970
	Node string `json:"node"`
}

// A page is a client that looks at the demo.
type page struct {
	*reconnect.Client
	t *testing.T

	mu      sync.Mutex
	samples []sample
	chat    []string // texts of the lines
	gaps    int
}

// look runs a page until the end of the test.
func look(t *testing.T, addr string) *page {
	t.Helper()
	p := &page{t: t}
	var err error
	p.Client, err = reconnect.NewClient(reconnect.Options{
		URL: func(context.Context) (string, error) { return "ws://" + addr + "/ws", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, take := range map[string]func(json.RawMessage){"host": p.takeSample, "chat": p.takeLine} {
		_, err := p.Subscribe(name, nil, reconnect.Handler{
			Snapshot: func(s reconnect.SnapshotInfo) {
				var items []json.RawMessage
				p.decode(s.State, &items)
				for _, item := range items {
					take(item)
				}
			},
			Event: func(e reconnect.EventInfo) { take(e.Data) },
			Recovered: func(r reconnect.Recovery) {
				if r.Outcome == reconnect.GapWithSnapshot || r.Outcome == reconnect.GapWithoutSnapshot {
					p.mu.Lock()
					defer p.mu.Unlock()
					p.gaps++
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel(errOver)
		if err := <-ended; !errors.Is(err, errOver) {
			t.Errorf("a page ended with %v", err)
		}
	})
	return p
}

func (p *page) decode(data json.RawMessage, into any) {
	if err := json.Unmarshal(data, into); err != nil {
		p.t.Errorf("%s: %v", data, err)
	}
}

func (p *page) takeSample(data json.RawMessage) {
	var s sample
	p.decode(data, &s)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.samples = append(p.samples, s)
}

func (p *page) takeLine(data json.RawMessage) {
	var line struct{ Text string }
	p.decode(data, &line)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.chat = append(p.chat, line.Text)
}

func (p *page) sampled() []sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.samples
}

func (p *page) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.chat, " ")
}

// TestTheDemoIsOneSiteOnManyNodes looks at the demo through a balancer: the host is
// sampled once a second, whichever node dies, and each node has the whole chat.
func TestTheDemoIsOneSiteOnManyNodes(t *testing.T) {
	t.Parallel()
	args := []string{"-store", startRedis(t).url(), "-spread", "500ms"}
	nodes := []*process{start(t, args...), start(t, args...), start(t, args...)}
	b := balance(t, nodes...)
	p := look(t, b.listener.Addr().String())

	for _, text := range []string{"one", "two", "three"} {
		if _, err := p.Send(t.Context(), json.RawMessage(`{"chat":"`+text+`"}`)); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range nodes {
		late := look(t, node.addr)
		eventually(t, "the whole chat on each node", func() bool { return late.said() == "one two three" })
	}

	for len(nodes) > 1 {
		from := len(p.sampled())
		eventually(t, "samples", func() bool { return len(p.sampled()) >= from+6 })
		recent := p.sampled()[from+2:] // at the change there may be two that take over
		for _, s := range recent[1:] {
			if s.Node != recent[0].Node {
				t.Errorf("samples of two nodes: %+v", recent)
			}
		}
		// The first may be as late as it likes, and those after it are a second apart.
		if took, n := recent[len(recent)-1].T-recent[0].T, len(recent); took < int64(n-2)*1000-10 {
			t.Errorf("%d samples within %d ms", n, took)
		}
		author := slices.IndexFunc(nodes, func(p *process) bool { return strings.Contains(p.log.String(), recent[0].Node) })
		if author < 0 {
			t.Fatalf("samples of nobody: %+v", recent)
		}
		nodes[author].kill()
		nodes = slices.Delete(nodes, author, author+1)
	}
	from, begun := len(p.sampled()), time.Now()
	eventually(t, "samples from the last node", func() bool { return len(p.sampled()) > from })
	t.Logf("the last node went on after %.1f s", time.Since(begun).Seconds())
	if p.gaps > 0 || p.said() != "one two three" {
		t.Errorf("%d gaps, chat %q", p.gaps, p.said())
	}
}

// TestThePasswordOfTheStoreIsNotTold wants it in no word of a server, whether it gets in
// or not.
func TestThePasswordOfTheStoreIsNotTold(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	redis.cli("ACL", "SETUSER", "node", "on", ">hunter2", "~*", "&*", "+@all")
	url := strings.Replace(redis.url(), "redis://", "redis://node:hunter2@", 1)
	p := start(t, "-v", "-store", url)
	p.awaitReady()
	p.stop()
	if text := p.log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "store="+redis.url()) {
		t.Errorf("the log names the password, or not the store:\n%s", text)
	}
	for _, bad := range []string{strings.Replace(url, "node", "nobody", 1), strings.Replace(url, "127.0.0.1", "127.0.0.1:1", 1), url + "/%zz"} {
		_, err := tryStart(t, "-v", "-store", bad)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "-store") {
			t.Errorf("a server with a bad store: %v", err)
		}
	}
}
