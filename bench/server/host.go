//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// mark is in every event once, and nowhere else.
const mark = '~'

// payload is an event's data: 140 bytes, which with what either protocol puts around
// it are about 190 on the wire.
var payload = []byte(`{"symbol":"XMPL","bid":101.25,"ask":101.27,"volume":12345,"text":"` +
	string(mark) + strings.Repeat("x", 71) + `"}`)

// host is the process of a server. Its exported methods are what it can be asked to
// do.
type host struct {
	endpoints
	addr      string
	receipts  *bufio.Reader
	pipe      *os.File // below receipts
	published uint64   // events, from the start
	received  receipt  // the last one
}

// receipt is what a crowd says on the pipe: when the event of that number had
// reached all clients, in ns since 1970.
type receipt struct {
	Event   uint64
	At      int64 // its last client has read it
	Arrived int64 // the kernel had it for its last client: on a loopback, as it was written
}

const receiptSize = 24

func runHost(args []string) error {
	var set settings
	if err := json.Unmarshal([]byte(args[1]), &set); err != nil {
		return err
	}
	var e endpoints
	var err error
	switch kind := args[0]; kind {
	case longwire:
		e, err = newLongwire(set)
	case centrifuge:
		e, err = newCentrifuge(set)
	default:
		err = fmt.Errorf("no such server: %q", kind)
	}
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // lasts as long as the process
	if err != nil {
		return err
	}
	server := &http.Server{Handler: e.handler, ReadHeaderTimeout: time.Minute}
	go server.Serve(listener)                                     //nolint:errcheck // lasts as long as the process
	if err := syscall.SetNonblock(receiptsFD, true); err != nil { // for deadlines
		return err
	}
	pipe := os.NewFile(receiptsFD, "receipts")
	return answerCalls("host", &host{
		endpoints: e,
		addr:      listener.Addr().String(),
		receipts:  bufio.NewReader(pipe),
		pipe:      pipe,
	})
}

// Addr returns the address of the server.
func (h *host) Addr(_ struct{}, addr *string) error { //nolint:unparam // net/rpc wants an error
	*addr = h.addr
	return nil
}

// Usage returns the CPU time that the process has used.
func (h *host) Usage(_ struct{}, usage *Usage) (err error) {
	*usage, err = usageNow()
	return err
}

// Memory measures the process, after it has given back what it can if free.
func (h *host) Memory(free bool, memory *Memory) (err error) {
	*memory, err = memoryNow(free)
	return err
}

// Publish publishes n events and waits for nobody.
func (h *host) Publish(n int, _ *struct{}) error {
	for range n {
		if err := h.publishOne(); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) publishOne() error {
	h.published++
	return h.publish(channel, payload)
}

// Filling are events that nobody follows.
type Filling struct {
	Streams int
	Events  int // to each
}

// Fill publishes events to the channel and others.
func (h *host) Fill(f Filling, _ *struct{}) error {
	for _, name := range names(f.Streams) {
		for range f.Events {
			if err := h.publish(name, payload); err != nil {
				return err
			}
		}
	}
	return nil
}

// Singles are events that were published one by one, each when the one before it had
// reached all clients.
type Singles struct {
	Calls    []time.Duration // of publishing
	Arrivals []time.Duration // from the call's start to the arrival at the last client
	Receipts []time.Duration // from the call's start to the last client's receipt
}

// Single publishes n events one by one.
func (h *host) Single(n int, singles *Singles) error {
	for range n {
		started := time.Now()
		if err := h.publishOne(); err != nil {
			return err
		}
		singles.Calls = append(singles.Calls, time.Since(started))
		if err := h.wait(); err != nil { // for this one: no other is under way
			return err
		}
		singles.Arrivals = append(singles.Arrivals, time.Duration(h.received.Arrived-started.UnixNano()))
		singles.Receipts = append(singles.Receipts, time.Duration(h.received.At-started.UnixNano()))
	}
	return nil
}

// Pace says how a flood is published.
type Pace struct {
	For    time.Duration
	Window int // how many events may be under way to the slowest client
}

// Flood are events that were published as fast as the slowest client took them.
type Flood struct {
	Events int
	Took   time.Duration // until the last client had the last one
}

// Flood publishes as many events as the clients take within a time.
func (h *host) Flood(p Pace, flood *Flood) error {
	window := uint64(p.Window) //nolint:gosec // positive
	// Refilled by the quarter: otherwise each receipt would let one event go.
	refill := window - window/4
	before := h.published
	started := time.Now()
	for time.Since(started) < p.For {
		for h.published-h.received.Event < window {
			if err := h.publishOne(); err != nil {
				return err
			}
		}
		for h.published-h.received.Event > refill {
			if err := h.wait(); err != nil {
				return err
			}
		}
	}
	err := h.waitForAll()
	flood.Events = int(h.published - before) //nolint:gosec // a count
	flood.Took = time.Duration(h.received.At - started.UnixNano())
	return err
}

// Delivery are events that all clients get.
type Delivery struct {
	Events int
	Window int // how many of them are published at a time
}

// Deliver publishes events and waits until all clients have them.
func (h *host) Deliver(d Delivery, _ *struct{}) error {
	for left := d.Events; left > 0; left -= d.Window {
		if err := h.Publish(min(left, d.Window), nil); err != nil {
			return err
		}
		if err := h.waitForAll(); err != nil {
			return err
		}
	}
	return nil
}

// waitForAll waits until all clients have every event.
func (h *host) waitForAll() error {
	for h.received.Event < h.published {
		if err := h.wait(); err != nil {
			return err
		}
	}
	return nil
}

// patience bounds how long anything that was asked for may take to arrive.
const patience = 30 * time.Second

// wait waits for the crowd's next receipt.
func (h *host) wait() error {
	_ = h.pipe.SetReadDeadline(time.Now().Add(patience)) // fails only when closed, as the read will
	var text [receiptSize]byte
	if _, err := io.ReadFull(h.receipts, text[:]); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("only %d of %d events have reached all clients: %w", h.received.Event, h.published, err)
		}
		return err
	}
	_, err := binary.Decode(text[:], binary.NativeEndian, &h.received)
	return err
}
