package server

import (
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics returns a handler that serves the metrics of the server, of the Go runtime
// and of the process to Prometheus. It asks for no login and tells how busy the node
// is: serve it where only the operators get, on a listener of its own. It answers
// during a drain and after Close as well. Values of labels are from fixed sets; no
// user, session, stream or address is among them.
func (s *Server) Metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
		s.Collector(),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelError),
	})
}

// Collector returns the metrics of the server alone, all named longwire_…, for a
// registry of the application's own. A registry takes them of one server and refuses
// those of a second with an error; register each with a label then:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"endpoint": "chat"}, registry)
func (s *Server) Collector() prometheus.Collector { return newCollector(s) }

// sample is a number that is read when it is collected.
type sample struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []string
	read   func() float64
}

// collector lists what is exported.
type collector struct {
	samples    []sample
	histograms []prometheus.Histogram
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range c.samples {
		descs <- m.desc
	}
	for _, h := range c.histograms {
		h.Describe(descs)
	}
}

// Collect implements prometheus.Collector. It waits for nothing but locks that are
// held for a moment.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	for _, m := range c.samples {
		metrics <- prometheus.MustNewConstMetric(m.desc, m.kind, m.read(), m.labels...)
	}
	for _, h := range c.histograms {
		h.Collect(metrics)
	}
}

const namespace = "longwire_"

func (c *collector) gauge(name, help string, read func() int) {
	desc := prometheus.NewDesc(namespace+name, help, nil, nil)
	c.samples = append(c.samples, sample{desc, prometheus.GaugeValue, nil, func() float64 { return float64(read()) }})
}

func (c *collector) counter(name, help string, n *atomic.Uint64) {
	c.count(prometheus.NewDesc(namespace+name, help, nil, nil), n)
}

func (c *collector) count(desc *prometheus.Desc, n *atomic.Uint64, labels ...string) {
	c.samples = append(c.samples, sample{desc, prometheus.CounterValue, labels, func() float64 { return float64(n.Load()) }})
}

func newCollector(s *Server) *collector {
	c := &collector{}
	n := &s.counters
	c.connections(s)
	c.handshakes(n)
	c.traffic(n)
	c.snapshots(s)
	c.messages(s)
	c.drain(s)
	c.store(s)
	c.counter("panics_total", "Panics of the application's functions, each logged.", &n.panics)
	c.histograms = []prometheus.Histogram{n.recovery, n.batch, n.snapshotTime, n.messageTime}
	return c
}

func (c *collector) connections(s *Server) {
	n := &s.counters
	c.gauge("connections", "Connections that are open, those before their resume included.", s.connected)
	c.gauge("connections_limit", "Admission.Connections: how many may be open.", func() int { return s.opts.Admission.Connections })

	sessions := prometheus.NewDesc(namespace+"sessions", "Sessions that are known, live ones having a connection.", []string{"state"}, nil)
	session := func(state string, read func() int) {
		c.samples = append(c.samples, sample{sessions, prometheus.GaugeValue, []string{state}, func() float64 {
			return float64(read())
		}})
	}
	session("live", s.users.count)
	session("idle", func() int { return max(s.store.Stats().Sessions-s.users.count(), 0) })

	c.gauge("streams", "Named streams that are known.", func() int { return s.store.Stats().Streams })
	c.gauge("streams_limit", "Options.Streams: up to how many a sub may create one.", func() int { return s.opts.Streams })

	closed := prometheus.NewDesc(namespace+"connections_closed_total",
		"Connections that had a welcome and have ended, by who ended them and the close code.", []string{"side", "code"}, nil)
	for side := range sides {
		for i := range n.closed[side] {
			code := "other"
			if i != otherCode {
				code = strconv.Itoa(closeCodes[i])
			}
			if (side == lost) == (i == abnormal) {
				c.count(closed, &n.closed[side][i], side.String(), code)
			}
		}
	}
	c.counter("connections_superseded_total", "Connections closed for a newer one of their session.", &n.superseded)
	c.counter("connections_stalled_total", "Connections dropped because they took nothing for the write timeout.", &n.stalled)
	c.counter("connections_silent_total", "Connections dropped because they said nothing, those without a resume in time included.", &n.silent)
	c.counter("connections_malformed_total", "Connections closed for what they sent.", &n.malformed)
}

func (c *collector) handshakes(n *counters) {
	c.counter("handshakes_total", "Upgrades asked for. Those denied and the welcomes add up to it.", &n.handshakes)
	denied := prometheus.NewDesc(namespace+"handshakes_denied_total", "Handshakes that came to no welcome, by reason.", []string{"reason"}, nil)
	for d := notDenied + 1; d < denials; d++ {
		c.count(denied, &n.denied[d], d.String())
	}
	c.counter("handshakes_turned_away_total", "Of the handshakes denied, those answered with close code 1013 before authentication.", &n.shed)
	c.counter("accept_waits_total", "Times that Listener waited for Admission.Accepts.", &n.acceptWaits)
	welcomes := prometheus.NewDesc(namespace+"welcomes_total",
		"Sessions confirmed, by what that was to the client: snapshot is a snapshot or a reset for a stream at least.", []string{"outcome"}, nil)
	for o := range outcomes {
		c.count(welcomes, &n.welcomes[o], o.String())
	}
	c.counter("sessions_resumed_total", "Of the welcomes, those of a session that was known.", &n.resumed)
}

func (c *collector) traffic(n *counters) {
	c.counter("events_published_total", "Events appended to streams.", &n.published)
	c.counter("events_written_total", "Events written to connections.", &n.events)
	c.counter("frames_written_total", "WebSocket messages written to connections.", &n.frames)
	c.counter("written_bytes_total", "Bytes of WebSocket frames written to connections, before TLS.", &n.bytes)
	c.counter("resyncs_total", "Answers that voided a stream's position.", &n.resyncs)
	c.counter("resets_total", "Resets written: gaps, those that a snapshot follows included.", &n.resets)
	c.counter("snapshots_written_total", "Snapshots written to connections.", &n.snapshots)
}

func (c *collector) snapshots(s *Server) {
	n := &s.counters
	c.counter("snapshot_runs_total", "Runs of a snapshot function that were begun.", &n.computed)
	c.counter("snapshot_failures_total", "Runs of a snapshot function that failed or took longer than SnapshotTimeout.", &n.uncomputed)
	c.gauge("snapshots_running", "Snapshot functions that run, at most Options.Snapshots.", func() int { running, _ := s.snapshots.count(); return running })
	c.gauge("snapshots_waiting", "Runs of a snapshot function that wait for their turn.", func() int { _, waiting := s.snapshots.count(); return waiting })
	c.gauge("replays_running", "Connections that are written what they missed, at most Admission.Replays.", func() int {
		running, _ := s.replays.count(s.opts.Admission.Replays)
		return running
	})
	c.gauge("replays_waiting", "Connections that wait for their turn to be written what they missed.", func() int {
		_, waiting := s.replays.count(s.opts.Admission.Replays)
		return waiting
	})
	c.gauge("welcomes_waiting", "Resumes that wait for Admission.Welcomes.", s.gate.count)
}

func (c *collector) messages(s *Server) {
	n := &s.counters
	c.counter("messages_handled_total", "Messages given to OnMessage.", &n.messages)
	c.counter("messages_deduplicated_total", "Messages answered from memory: they had been handled, or were being.", &n.duplicates)
	c.counter("messages_refused_total", "Messages refused for good or for now: nacks.", &n.refused)
	c.counter("messages_limited_total", "Of the messages refused, those beyond Admission.MessageRate.", &n.limited)
	c.gauge("messages_running", "Messages that are being handled.", func() int { return int(s.handling.Load()) })
}

func (c *collector) drain(s *Server) {
	c.gauge("drain_phase", "0: serving, 1: not ready, in grace, 2: closing connections, 3: drained.", func() int { phase, _ := s.drainState(); return phase })
	c.gauge("drain_connections", "Connections that a drain has still to move, 0 before its window.", func() int { _, left := s.drainState(); return left })
	c.counter("drain_forced_total", "Connections that a drain dropped at its end.", &s.counters.forced)
}

func (c *collector) store(s *Server) {
	read := func(name, help string, kind prometheus.ValueType, value func() float64) {
		c.samples = append(c.samples, sample{prometheus.NewDesc(namespace+name, help, nil, nil), kind, nil, value})
	}
	read("store_stale_seconds", "For how long the store has not answered, 0 while it does.", prometheus.GaugeValue,
		func() float64 { return s.store.Stale().Seconds() })
	read("store_renumbered_total", "Streams whose numbering started anew while they were followed here.", prometheus.CounterValue,
		func() float64 { return float64(s.store.Stats().Renumbered) })
	read("store_holes_total", "Times that events of a stream did not arrive by themselves and were read from the store.", prometheus.CounterValue,
		func() float64 { return float64(s.store.Stats().Holes) })
	read("store_corrupt_total", "Entries of the store that could not be read: who was before them got a snapshot.", prometheus.CounterValue,
		func() float64 { return float64(s.store.Stats().Corrupt) })
}

// init makes the histograms.
func (n *counters) init() {
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: namespace + name, Help: help, Buckets: buckets})
	}
	n.recovery = histogram("recovery_duration_seconds", "From when a client last heard of its session until that was confirmed again, as clients say; a day at most.",
		[]float64{0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 30, 60, 120, 300, 900, 3600})
	n.batch = histogram("batch_events", "Events in one WebSocket message, of messages with any.", prometheus.ExponentialBuckets(1, 2, 11))
	n.snapshotTime = histogram("snapshot_duration_seconds", "Time that runs of a snapshot function took.",
		[]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30})
	n.messageTime = histogram("message_duration_seconds", "Time that OnMessage took.",
		[]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30})
}

// observe is to be deferred: it notes the time since start.
func observe(h prometheus.Histogram, start time.Time) { h.Observe(time.Since(start).Seconds()) }

func (sn *snapshots) count() (running, waiting int) {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	return sn.running, len(sn.queue)
}

func (r *replays) count(most int) (running, waiting int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return most - r.free, r.queue.Len()
}

func (g *gate) count() (waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.resumes.Len() + g.others.Len()
}

// drainState returns the phase of the drain, and how many connections it has left.
func (s *Server) drainState() (phase, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.counters.drained.Load():
		return 3, 0
	case s.drain.refusing:
		return 2, len(s.conns)
	case s.drain.unready:
		return 1, 0
	}
	return 0, 0
}
