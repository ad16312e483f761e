package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// exported are the values of series, by name and label values, as in
// sessions{live}; of a histogram name_count and name_sum.
type exported map[string]float64

// collect reads the metrics of the server.
func (w *world) collect() exported {
	w.t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(w.srv.Collector()); err != nil {
		w.t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	all := make(exported)
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "longwire_")
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			key := name
			if labels != nil {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case m.GetHistogram() != nil:
				all[key+"_count"] = float64(m.GetHistogram().GetSampleCount())
				all[key+"_sum"] = m.GetHistogram().GetSampleSum()
			case m.GetCounter() != nil:
				all[key] = m.GetCounter().GetValue()
			default:
				all[key] = m.GetGauge().GetValue()
			}
		}
	}
	return all
}

// sum adds the series of one metric up.
func (e exported) sum(name string) float64 {
	total := 0.0
	for key, n := range e {
		if key == name || strings.HasPrefix(key, name+"{") {
			total += n
		}
	}
	return total
}

// scrape returns what the handler serves.
func scrape(t *testing.T, metrics http.Handler) string {
	t.Helper()
	res := httptest.NewRecorder()
	metrics.ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if res.Code != http.StatusOK {
		t.Errorf("scrape: %d: %s", res.Code, res.Body)
	}
	return res.Body.String()
}

func (w *world) text() string {
	w.t.Helper()
	return scrape(w.t, w.srv.Metrics())
}

func TestMetricsParseAndLintClean(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		w.join("ann", `"subs":{"s":{}}`)
		w.publish("s", `1`)
		problems, err := promlint.New(strings.NewReader(w.text())).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("Lint: %+v, %v", problems, err)
		}
		for _, name := range []string{"longwire_connections 1", "go_goroutines ", "process_start_time_seconds ", "go_build_info{"} {
			if !strings.Contains(w.text(), "\n"+name) {
				t.Errorf("no %s in\n%s", name, w.text())
			}
		}
	})
}

// tooLong is a function of the application that ends with the server.
func tooLong(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func stateOf(context.Context, string) (server.Snapshot, error) {
	return server.Snapshot{State: []byte(`"state"`)}, nil
}

// some is any number above what it was.
const some = -1

// TestEachMetricMoves does what a metric counts, and looks at how much that moves it.
func TestEachMetricMoves(t *testing.T) {
	position := func(c *client, after int) string {
		return fmt.Sprintf(`"subs":{"s":{"after":%d,"epoch":%q}}`, after, c.welcome.Subs["s"].Epoch)
	}
	session := func(c *client) string { return fmt.Sprintf(`"session":%q`, c.welcome.Session) }
	limits := exported{"connections_limit": 10_000, "streams_limit": 100_000}
	moved := map[string]bool{"connections_limit": true, "streams_limit": true}
	names := map[string]bool{}
	away, anew := &trouble{}, &trouble{}

	for name, tt := range map[string]struct {
		options server.Options
		happen  func(t *testing.T, w *world) // what came before the last return is counted too
		want    exported
	}{
		"new": {happen: func(_ *testing.T, w *world) {
			w.join("ann", `"subs":{"s":{}}`)
		}, want: exported{
			"handshakes_total": 1, "welcomes_total{new}": 1, "welcomes_total{nothing_missed}": 0, "sessions_resumed_total": 0,
			"connections": 1, "sessions{live}": 1, "sessions{idle}": 0, "streams": 1,
			"frames_written_total": 1, "written_bytes_total": some, "recovery_duration_seconds_count": 0,
		}},
		"nothing missed": {happen: func(_ *testing.T, w *world) {
			c := w.join("ann", `"subs":{"s":{}}`)
			w.net.Cut()
			synctest.Wait()
			w.join("ann", session(c), position(c, 0), `"away":1500`)
		}, want: exported{
			"welcomes_total{new}": 1, "welcomes_total{nothing_missed}": 1, "sessions_resumed_total": 1, "sessions{live}": 1,
			"recovery_duration_seconds_count": 1, "recovery_duration_seconds_sum": 1.5, "connections_closed_total{1006,lost}": 1,
		}},
		"replayed": {happen: func(_ *testing.T, w *world) {
			c := w.join("ann", `"subs":{"s":{}}`)
			w.publish("s", `1`, `2`, `3`)
			c.expect(event("s", 1, `1`), event("s", 2, `2`), event("s", 3, `3`))
			w.net.Cut()
			synctest.Wait()
			w.join("ann", session(c), position(c, 1), `"batch":true`, `"away":9007199254740991`).until("events")
		}, want: exported{
			"welcomes_total{replayed}": 1, "events_published_total": 3, "events_written_total": 5,
			"batch_events_count": 4, "batch_events_sum": 5, "recovery_duration_seconds_sum": 24 * 60 * 60,
			"replays_running": 0, "replays_waiting": 0,
		}},
		"a session that is forgotten, and a position": {options: server.Options{Snapshot: stateOf}, happen: func(_ *testing.T, w *world) {
			w.join("ann", `"session":"x"`, `"subs":{"s":{"after":7,"epoch":"x"}}`).until("snapshot")
		}, want: exported{
			"welcomes_total{snapshot}": 1, "sessions_resumed_total": 0, "resyncs_total": 1, "snapshots_written_total": 1,
			"snapshot_runs_total": 1, "snapshot_duration_seconds_count": 1, "snapshot_failures_total": 0, "resets_total": 0,
		}},
		"a gap": {options: server.Options{Snapshot: func(context.Context, string) (server.Snapshot, error) {
			time.Sleep(2 * time.Second)
			panic("no state")
		}}, happen: func(_ *testing.T, w *world) {
			w.join("ann", `"subs":{"s":{"after":7,"epoch":"x"}}`).until("reset")
		}, want: exported{
			"welcomes_total{snapshot}": 1, "resets_total": 1, "snapshot_failures_total": 1, "panics_total": 1,
			"snapshot_duration_seconds_count": 1, "snapshot_duration_seconds_sum": 2,
		}},
		"snapshots that take long": {options: server.Options{
			Snapshots: 1,
			Snapshot: func(ctx context.Context, _ string) (server.Snapshot, error) {
				return server.Snapshot{}, tooLong(ctx)
			},
		}, happen: func(_ *testing.T, w *world) {
			w.join("ann", `"subs":{"a":{},"b":{},"c":{}}`)
		}, want: exported{"snapshots_running": 1, "snapshots_waiting": 2, "snapshot_runs_total": 1, "snapshot_duration_seconds_count": 0}},
		"a snapshot that takes too long": {options: server.Options{
			Snapshot: func(ctx context.Context, _ string) (server.Snapshot, error) {
				return server.Snapshot{}, tooLong(ctx)
			},
		}, happen: func(_ *testing.T, w *world) {
			w.join("ann", `"subs":{"a":{}}`).until("reset")
		}, want: exported{"snapshot_failures_total": 1, "snapshots_running": 0}},
		"a stream without a snapshot is no failure": {options: server.Options{Snapshot: func(context.Context, string) (server.Snapshot, error) {
			return server.Snapshot{}, server.ErrNoSnapshot
		}}, happen: func(_ *testing.T, w *world) {
			w.join("ann", `"subs":{"a":{}}`)
		}, want: exported{"snapshot_runs_total": 1, "snapshot_failures_total": 0}},
		"replays": {options: server.Options{Admission: server.Admission{Replays: 1}}, happen: func(_ *testing.T, w *world) {
			c := w.join("ann", `"subs":{"s":{}}`)
			w.net.Cut()
			data := `"` + strings.Repeat("x", 200<<10) + `"`
			w.publish("s", data, data, data)
			for _, user := range []string{"bob", "cid"} {
				w.dialSilently(user).send(`{"t":"resume","v":1,%s}`, position(c, 0))
				synctest.Wait()
			}
		}, want: exported{"replays_running": 1, "replays_waiting": 1, "written_bytes_total": some}},
		"welcomes that wait": {options: server.Options{Admission: server.Admission{Welcomes: 0.5}}, happen: func(_ *testing.T, w *world) {
			w.join("ann")
			w.dial("bob").send(`{"t":"resume","v":1}`)
		}, want: exported{"welcomes_waiting": 1, "welcomes_total{new}": 1, "connections": 2}},
		"accepts": {options: server.Options{Admission: server.Admission{Accepts: 1}}, happen: func(t *testing.T, w *world) {
			network := memnet.Listen()
			l := w.srv.Listener(network.Listener())
			for range 2 {
				if nc, err := network.DialContext(t.Context(), "", "host"); err == nil {
					t.Cleanup(func() { _ = nc.Close() })
				}
			}
			for range 2 {
				if nc, err := l.Accept(); err == nil {
					_ = nc.Close()
				}
			}
		}, want: exported{"accept_waits_total": 1}},
		"denied": {happen: func(t *testing.T, w *world) {
			if _, _, err := w.tryDial("ann", "Origin", "https://elsewhere.example"); err == nil {
				t.Error("connected from a foreign origin")
			}
		}, want: exported{"handshakes_total": 1, "handshakes_denied_total{origin}": 1, "connections": 0}},
		"turned away": {options: server.Options{Admission: server.Admission{Connections: 1}}, happen: func(_ *testing.T, w *world) {
			w.join("ann")
			w.dial("bob").closed(wire.CloseTryLater, "retry=")
		}, want: exported{
			"handshakes_total": 2, "handshakes_denied_total{connections}": 1, "handshakes_turned_away_total": 1,
			"connections_limit": 1, "connections": 1,
		}},
		"superseded": {happen: func(_ *testing.T, w *world) {
			c := w.join("ann")
			w.join("ann", session(c))
			c.closed(wire.CloseNotNewest, "gen=")
		}, want: exported{"connections_superseded_total": 1, "connections_closed_total{4409,server}": 1, "connections": 1}},
		"closed by the client": {happen: func(_ *testing.T, w *world) {
			_ = w.join("ann").ws.Close(wire.CloseNormal, "")
			_ = w.join("ann").ws.Close(wire.CloseLeaving, "leaving")
			_ = w.join("ann").ws.Close(4999, "a code that a peer has made")
		}, want: exported{
			"connections_closed_total{1000,client}": 1, "connections_closed_total{4001,client}": 1,
			"connections_closed_total{other,client}": 1, "sessions{idle}": 3, "sessions{live}": 0,
		}},
		"closed by the application": {happen: func(_ *testing.T, w *world) {
			for _, code := range []int{wire.CloseForbidden, 4321} {
				c := w.join("ann")
				w.srv.Disconnect("ann", code, "")
				c.until("")
			}
		}, want: exported{"connections_closed_total{4403,server}": 1, "connections_closed_total{other,server}": 1}},
		"malformed": {happen: func(_ *testing.T, w *world) {
			c := w.join("ann")
			c.send(`{"t":"msg"}`)
			c.closed(wire.CloseBadRequest, "msg: id")
		}, want: exported{"connections_malformed_total": 1, "connections_closed_total{4400,server}": 1}},
		"silent": {happen: func(_ *testing.T, w *world) {
			w.join("ann")
			w.net.Mute(false, true)
			time.Sleep(time.Minute)
		}, want: exported{"connections_silent_total": 1, "connections_closed_total{1006,lost}": 1, "connections": 0}},
		"stalled": {happen: func(_ *testing.T, w *world) {
			w.dialSilently("ann").send(`{"t":"resume","v":1,"batch":true,"subs":{"s":{}}}`)
			synctest.Wait()
			w.publish("s", `"`+strings.Repeat("x", 200<<10)+`"`)
			time.Sleep(20 * time.Second)
		}, want: exported{"connections_stalled_total": 1, "connections_closed_total{1006,lost}": 1}},
		"messages": {options: server.Options{
			Admission: server.Admission{MessageRate: 0.1, MessageBurst: 3},
			OnMessage: func(_ context.Context, m server.Message) (json.RawMessage, error) {
				if string(m.Body) == `"refuse"` {
					return nil, &server.Refusal{Code: "no"}
				}
				time.Sleep(time.Second)
				return nil, nil
			},
		}, happen: func(_ *testing.T, w *world) {
			c := w.join("ann")
			c.msg("1", "x")
			c.msg("1", "x")
			c.msg("2", "refuse")
			c.msg("3", "x")
			for _, answer := range []string{"ack", "ack", "nack", "nack"} {
				c.until(answer)
			}
		}, want: exported{
			"messages_handled_total": 2, "messages_deduplicated_total": 1, "messages_refused_total": 2, "messages_limited_total": 1,
			"message_duration_seconds_count": 2, "message_duration_seconds_sum": 1, "messages_running": 0,
		}},
		"a message that takes long": {options: server.Options{OnMessage: func(ctx context.Context, _ server.Message) (json.RawMessage, error) {
			return nil, tooLong(ctx)
		}}, happen: func(_ *testing.T, w *world) {
			w.join("ann").msg("1", "x")
		}, want: exported{"messages_running": 1, "messages_handled_total": 1, "message_duration_seconds_count": 0}},
		"drained": {happen: func(t *testing.T, w *world) {
			w.join("ann").link.Mute(true, true) // says no goodbye
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _ = w.srv.Drain(ctx, 0)
		}, want: exported{
			"drain_phase": 3, "drain_connections": 0, "drain_forced_total": 1, "connections": 0, "connections_closed_total{1012,server}": 1,
		}},
		"store away": {options: server.Options{Store: away.open}, happen: func(_ *testing.T, _ *world) {
			away.goAway()
			time.Sleep(time.Second)
		}, want: exported{"store_stale_seconds": 1}},
		"numbered anew": {options: server.Options{Store: anew.open}, happen: func(_ *testing.T, w *world) {
			w.join("ann", `"subs":{"s":{}}`)
			anew.number()
		}, want: exported{"store_renumbered_total": 1, "store_holes_total": 2, "store_corrupt_total": 3, "resets_total": 1}},
		"draining": {options: server.Options{}, happen: func(t *testing.T, w *world) {
			w.join("ann")
			w.join("bob")
			go w.srv.Drain(t.Context(), time.Hour) //nolint:errcheck // ends with the test
		}, want: exported{"drain_phase": 2, "drain_connections": 2, "connections": 2, "drain_forced_total": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, tt.options, func(t *testing.T, w *world) {
				before := w.collect()
				tt.happen(t, w)
				synctest.Wait()
				after := w.collect()
				for key, n := range tt.want {
					if got, known := after[key]; !known || got != n && (n != some || got <= before[key]) {
						t.Errorf("%s = %v (%v), want %v", key, got, known, n)
					}
				}
				for key, n := range after {
					metric, _, _ := strings.Cut(key, "{")
					names[metric] = true
					if n != before[key] && n != limits[key] {
						moved[metric] = true
					}
				}
			})
		})
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !moved[name] {
			t.Errorf("nothing here moves %s", name)
		}
	}
}

func TestPhasesOfADrainAreExported(t *testing.T) {
	inWorld(t, server.Options{DrainGrace: 10 * time.Second}, func(t *testing.T, w *world) {
		for i := range 4 {
			w.join(strconv.Itoa(i))
		}
		check := func(phase, left, connections float64) {
			t.Helper()
			synctest.Wait()
			e := w.collect()
			want(t, "phase, left, connections", []float64{e["drain_phase"], e["drain_connections"], e["connections"]}, []float64{phase, left, connections})
		}
		check(0, 0, 4)
		go w.srv.Drain(t.Context(), 40*time.Second) //nolint:errcheck // ends with the test
		check(1, 0, 4)
		time.Sleep(11 * time.Second)
		check(2, 4, 4)
		time.Sleep(25 * time.Second) // one of four is closed after 5 s of the second half
		check(2, 3, 3)
		time.Sleep(time.Minute)
		check(3, 0, 0)
		if text := w.text(); !strings.Contains(text, "\nlongwire_drain_phase 3\n") {
			t.Error("the handler does not answer after a drain")
		}
	})
}
