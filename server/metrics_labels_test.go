package server_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/longwire/longwire/server"
)

// TestSeriesAreConstant is about monitoring that dies of its own labels.
func TestSeriesAreConstant(t *testing.T) {
	const visitors, streams = 1000, 10 // each
	inWorld(t, server.Options{Admission: server.Admission{Handshakes: 1e6, Connections: 1e6}, OnMessage: echo}, func(t *testing.T, w *world) {
		series := func() (lines []string) {
			for line := range strings.Lines(w.text()) {
				if strings.HasPrefix(line, "longwire_") {
					lines = append(lines, line)
				}
			}
			return lines
		}
		before := len(series())
		for i := range visitors {
			var subs []string
			for j := range streams {
				subs = append(subs, fmt.Sprintf(`"stream-%d-%d":{}`, i, j))
			}
			c := w.join(fmt.Sprint("user-", i), `"subs":{`+strings.Join(subs, ",")+`}`)
			w.publish(fmt.Sprintf("stream-%d-0", i), `1`)
			c.msg(fmt.Sprint("id-", i), "x")
			c.until("ack")
			if err := c.ws.Close(4900, fmt.Sprint("reason-", i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		after := series()
		want(t, "series", len(after), before)
		for _, line := range after {
			for _, id := range []string{"user-", "stream-", "id-", "reason-", "client-", "4900"} {
				if strings.Contains(line, id) {
					t.Errorf("%q is exported: %s", id, line)
				}
			}
		}
		want(t, "streams, sessions", []float64{w.collect()["streams"], w.collect()["sessions{idle}"]}, []float64{visitors * streams, visitors})
	})
}

// TestLabelsAreFromFixedSets looks at every value of every label, also of codes that
// only a peer can name.
func TestLabelsAreFromFixedSets(t *testing.T) {
	codes := []string{
		"1000", "1001", "1002", "1003", "1005", "1006", "1007", "1008", "1009", "1011", "1012", "1013",
		"4001", "4400", "4401", "4403", "4404", "4408", "4409", "4410", "4429", "other",
	}
	sets := map[string][]string{
		"state":   {"idle", "live"},
		"outcome": {"new", "nothing_missed", "replayed", "snapshot"},
		"side":    {"client", "lost", "server"},
		"code":    codes,
		"reason": {
			"address", "bad_hello", "bad_upgrade", "closed", "connections", "draining", "failed", "forbidden", "gone",
			"no_hello", "not_newest", "origin", "other_user", "rate", "store", "unauthorized", "user_connections", "welcomes",
		},
	}
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		for _, code := range []int{1000, 3000, 3999, 4001, 4321, 4999} {
			c := w.join("ann")
			_ = c.ws.Close(4999, "")
			c = w.join("ann")
			w.srv.Disconnect("ann", code, "")
			c.until("")
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(w.srv.Collector())
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]map[string]bool{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if got[l.GetName()] == nil {
						got[l.GetName()] = map[string]bool{}
					}
					got[l.GetName()][l.GetValue()] = true
				}
			}
		}
		for label, set := range sets {
			want(t, label, slices.Sorted(maps.Keys(got[label])), set)
		}
		want(t, "labels", len(got), len(sets))
	})
}

func TestTwoServersInOneRegistry(t *testing.T) {
	a, b := newServer(t), newServer(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(a.Collector())
	for _, srv := range []*server.Server{a, b} {
		if err := registry.Register(srv.Collector()); err == nil {
			t.Error("a second server was taken")
		}
	}
	labelled := prometheus.NewRegistry()
	for name, srv := range map[string]*server.Server{"a": a, "b": b} {
		prometheus.WrapRegistererWith(prometheus.Labels{"endpoint": name}, labelled).MustRegister(srv.Collector())
	}
	if _, err := a.Publish(t.Context(), "s", []byte(`1`)); err != nil {
		t.Fatal(err)
	}
	families, err := labelled.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "longwire_events_published_total" {
			m := f.GetMetric()
			want(t, "published by a and b", []float64{m[0].GetCounter().GetValue(), m[1].GetCounter().GetValue()}, []float64{1, 0})
			return
		}
	}
	t.Error("nothing is exported")
}

func newServer(t *testing.T) *server.Server {
	t.Helper()
	srv, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}
