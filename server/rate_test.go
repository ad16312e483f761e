package server_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// answers returns the types of the next n answers, counted, and the first nack.
func (c *client) answers(n int) (acks, nacks int, first wire.Nack) {
	c.t.Helper()
	for range n {
		switch f := c.next().(type) {
		case wire.Ack:
			acks++
		case wire.Nack:
			if nacks++; nacks == 1 {
				first = f
			}
		default:
			c.t.Fatalf("got %+v (%v)", f, c.err)
		}
	}
	return acks, nacks, first
}

func TestMessagesBeyondTheRateAreRefusedForNow(t *testing.T) {
	inWorld(t, server.Options{
		OnMessage: echo, Window: 8, Admission: server.Admission{MessageRate: 20, MessageBurst: 10},
	}, func(t *testing.T, w *world) {
		c := w.join("ann")
		other, stranger := w.join("ann"), w.join("bob")
		send := func(c *client, from, to int) {
			for i := from; i <= to; i++ {
				c.msg(fmt.Sprint(i), "x")
			}
			synctest.Wait()
		}
		send(c, 1, 14)
		acks, nacks, first := c.answers(14)
		// Until then there is room for a window: 8 of 20 a second.
		want(t, "acks, nacks, the first", []any{acks, nacks, first}, []any{10, 4, wire.Nack{
			ID: "11", Code: wire.NackBusy, Reason: "too many messages", HasRetry: true, Retry: 400,
		}})
		// The rate is the user's, on whatever connection; others have their own.
		send(other, 15, 15)
		_, nacks, _ = other.answers(1)
		want(t, "nacks of another connection", nacks, 1)
		send(stranger, 16, 16)
		acks, _, _ = stranger.answers(1)
		want(t, "acks of another user", acks, 1)

		time.Sleep(400 * time.Millisecond)
		send(c, 11, 18)
		acks, _, _ = c.answers(8)
		want(t, "acks after the wait", acks, 8)
		s := w.srv.Stats()
		want(t, "limited, refused, connections", []any{s.Limited, s.Refused, s.Connections}, []any{uint64(2), uint64(5), 3})
	})
}

func TestWhoIgnoresThatItSendsTooMuchIsClosed(t *testing.T) {
	for name, id := range map[string]func(i int) string{
		"ever new messages":      func(i int) string { return fmt.Sprint(i) },
		"the same over and over": func(i int) string { return fmt.Sprint(min(i, 11)) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, server.Options{
				OnMessage: echo, Window: 8, Admission: server.Admission{MessageRate: 0.1, MessageBurst: 10},
			}, func(t *testing.T, w *world) {
				c := w.join("ann")
				for i := range 100 {
					c.msg(id(i), "x")
					synctest.Wait()
					if w.srv.Stats().Connections == 0 {
						break
					}
				}
				c.closed(wire.CloseTooMany, "retry=15000-30000")
				s := w.srv.Stats()
				want(t, "handled, connections", []any{s.Messages, s.Connections}, []any{uint64(10), 0})
				if s.Refused > 3*8 {
					t.Errorf("%d refusals before the close", s.Refused)
				}
			})
		})
	}
}

// Connections of one user share its rate. Each that waits as it is told is heard.
func TestWhoWaitsAsToldIsNotClosedHoweverOftenItIsRefused(t *testing.T) {
	inWorld(t, server.Options{
		OnMessage: echo, Window: 8, Admission: server.Admission{MessageRate: 0.5, MessageBurst: 1},
	}, func(t *testing.T, w *world) {
		c, other := w.join("ann"), w.join("ann")
		for round := range 20 {
			other.msg(fmt.Sprint("o", round), "x")
			synctest.Wait()
			for i := range 8 {
				c.msg(fmt.Sprint(i), "x")
			}
			acks, nacks, first := c.answers(8)
			want(t, "answers", []int{acks, nacks}, []int{0, 8})
			time.Sleep(time.Duration(first.Retry) * time.Millisecond)
		}
		c.msg("0", "x")
		acks, _, _ := c.answers(1)
		want(t, "acks", acks, 1)
	})
}
