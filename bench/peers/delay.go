package main

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/longwire/longwire/internal/pause"
)

// link is what a network is like between a page and a server. The zero link is
// loopback.
type link struct {
	roundTrip time.Duration
	rate      int // bytes a second of each connection in each direction, 0: no limit
}

// through returns the address of a proxy in front of addr that behaves like the link,
// as long as ctx lasts.
func (l link) through(ctx context.Context, addr string) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // ctx has ended
			}
			go l.relay(ctx, c, addr)
		}
	}()
	return listener.Addr().String(), nil
}

func (l link) relay(ctx context.Context, client net.Conn, addr string) {
	server, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		_ = client.Close()
		return
	}
	context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })
	// The handshake of TCP is a round trip before the first byte.
	go l.pump(ctx, server, client, time.Now().Add(l.roundTrip))
	l.pump(ctx, client, server, time.Time{})
}

// pump copies from one side to the other, each chunk when it would have arrived, and
// none before notBefore and the way there.
func (l link) pump(ctx context.Context, to io.WriteCloser, from io.Reader, notBefore time.Time) {
	type chunk struct {
		data []byte
		at   time.Time
	}
	chunks := make(chan chunk, 1024)
	go func() {
		defer close(chunks)
		free := notBefore // when the line can take more
		for {
			data := make([]byte, 16<<10)
			n, err := from.Read(data)
			if n > 0 {
				if now := time.Now(); free.Before(now) {
					free = now
				}
				if l.rate > 0 {
					free = free.Add(time.Duration(n) * time.Second / time.Duration(l.rate))
				}
				chunks <- chunk{data[:n], free.Add(l.roundTrip / 2)}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range chunks {
		if pause.For(ctx, time.Until(c.at)) != nil {
			break
		}
		if _, err := to.Write(c.data); err != nil {
			break
		}
	}
	_ = to.Close()
	for range chunks { // the reader ends by itself
	}
}
