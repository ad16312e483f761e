package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// channel is the one stream of all.
const channel = "bench"

// filling makes an event 150 bytes long.
var filling = strings.Repeat("x", 48)

// payload is an event that says when it was published.
func payload() []byte {
	at := strconv.FormatFloat(float64(time.Now().UnixMicro())/1000, 'f', 3, 64) // ms since 1970
	return []byte(`{"at":` + at + `,"symbol":"XMPL","bid":101.25,"ask":101.27,"volume":12345,"text":"` + filling + `"}`)
}

// endpoint is a server under measurement.
type endpoint struct {
	handler http.Handler
	publish func(data []byte) error
}

// endpoints are the servers in Go; pages come from the origins.
var endpoints = map[string]func(origins []string) (endpoint, error){
	hostLongwire:   func(origins []string) (endpoint, error) { return newLongwire(origins, 0) },
	hostBrisk:      func(origins []string) (endpoint, error) { return newLongwire(origins, 2*time.Second) },
	hostPlain:      func([]string) (endpoint, error) { return newPlain(), nil },
	hostCentrifuge: func([]string) (endpoint, error) { return newCentrifuge() },
}

// command is what a host is told. Without a number to publish it is asked for counts.
type command struct {
	Publish int `json:"publish,omitempty"`
}

// counts are of HTTP requests and upgrades, so far.
type counts struct {
	Handshakes int64 `json:"handshakes"`
}

// greeting is the first line that a host says.
type greeting struct {
	Port int `json:"port"`
}

// runHost is the process of a server: kind, port (0: any), origins. It does what is
// said on the standard input, until that ends.
func runHost(args []string) error {
	if len(args) < 2 || endpoints[args[0]] == nil {
		return fmt.Errorf("no such server: %q", args)
	}
	e, err := endpoints[args[0]](args[2:])
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+args[1]) //nolint:noctx // lasts as long as the process
	if err != nil {
		return err
	}
	var handshakes atomic.Int64
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handshakes.Add(1)
			e.handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: time.Minute,
	}
	go server.Serve(listener) //nolint:errcheck // lasts as long as the process
	say := json.NewEncoder(os.Stdout)
	if err := say.Encode(greeting{Port: listener.Addr().(*net.TCPAddr).Port}); err != nil {
		return err
	}
	told := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var c command
		if err := told.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if c.Publish == 0 {
			if err := say.Encode(counts{handshakes.Load()}); err != nil {
				return err
			}
		}
		for range c.Publish {
			if err := e.publish(payload()); err != nil {
				return err
			}
		}
	}
}
