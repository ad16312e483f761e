package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"
)

// A hostSample is one event of the stream host. What the platform does not tell
// is null.
type hostSample struct {
	Time     int64    `json:"t"`        // ms since 1970
	CPUs     int      `json:"cpus"`     // logical ones; a load of that many keeps all busy
	Load     *float64 `json:"load"`     // average of one minute
	MemUsed  *uint64  `json:"memUsed"`  // bytes
	MemTotal *uint64  `json:"memTotal"` // bytes
	Received *float64 `json:"rx"`       // bytes per second over all interfaces, loopback too
	Sent     *float64 `json:"tx"`
	Node     string   `json:"node,omitempty"` // who took it, if others could have
}

// A hostMeter reads the counters of this host.
type hostMeter struct {
	log    *slog.Logger
	failed map[string]bool // sources complained about
	last   net.IOCountersStat
	lastAt time.Time
}

// sampleHost adds a sample to f each second until ctx ends. Of the nodes that share a
// store only one does.
func sampleHost(ctx context.Context, f *feed, node string, log *slog.Logger) {
	m := &hostMeter{log: log, failed: map[string]bool{}}
	turn := &shift{node: node, feed: f}
	defer turn.end()
	m.sample(ctx) // the rates need a first reading
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		sample := m.sample(ctx)
		if !turn.mine(ctx) {
			continue
		}
		if turn.store != nil {
			sample.Node = node
		}
		item, err := json.Marshal(sample)
		if err == nil {
			// While the server is down the samples are kept for the next snapshot.
			_, err = f.add(ctx, item)
		}
		if err != nil {
			log.Debug("host sample not published", "err", err)
		}
	}
}

func (m *hostMeter) sample(ctx context.Context) hostSample {
	now := time.Now()
	s := hostSample{Time: now.UnixMilli(), CPUs: runtime.NumCPU()}
	if avg, err := load.AvgWithContext(ctx); m.ok("load", err) {
		s.Load = &avg.Load1
	}
	if vm, err := mem.VirtualMemoryWithContext(ctx); m.ok("memory", err) {
		s.MemUsed, s.MemTotal = &vm.Used, &vm.Total
	}
	if io, err := net.IOCountersWithContext(ctx, false); m.ok("network", err) && len(io) == 1 {
		if !m.lastAt.IsZero() {
			elapsed := now.Sub(m.lastAt).Seconds()
			s.Received = rate(m.last.BytesRecv, io[0].BytesRecv, elapsed)
			s.Sent = rate(m.last.BytesSent, io[0].BytesSent, elapsed)
		}
		m.last, m.lastAt = io[0], now
	}
	return s
}

// rate returns nil when a counter went back, as it does when an interface goes.
func rate(before, after uint64, seconds float64) *float64 {
	if after < before || seconds <= 0 {
		return nil
	}
	perSecond := float64(after-before) / seconds
	return &perSecond
}

// ok reports whether err is nil, and logs the first error of each source.
func (m *hostMeter) ok(source string, err error) bool {
	if err != nil && !m.failed[source] {
		m.failed[source] = true
		m.log.Warn("host counters not readable", "source", source, "err", err)
	}
	return err == nil
}
