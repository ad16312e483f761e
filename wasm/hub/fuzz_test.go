package hub_test

import (
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// FuzzHub gives a live hub with another tab any text from everywhere. Whatever comes,
// it posts and tells nothing that cannot be read, and wants to be ticked at times.
func FuzzHub(f *testing.F) {
	for _, text := range []string{
		`{"t":"resume","own":false,"subs":{"a":{}}}`, `{"t":"sub","stream":"b"}`, `{"t":"unsub","stream":"a"}`, `{"t":"msg","id":"m","body":1}`,
		`{"t":"here","known":9007199254740991}`, `{"t":"take"}`, `{"t":"stop"}`, `{"t":"bye"}`, `{"t":"kick","why":"now"}`,
		`{"g":2000000,"h":"Z","f":{}}`, `{"g":0,"i":"t3","f":{"t":"here","ask":true}}`, `{"t":"drain","within":0}`,
		`{"t":"reset","stream":"a","seq":1,"epoch":"f","first":0,"snapshot":true}`, `{"t":"subbed","stream":"a","error":"busy"}`,
	} {
		for from := range byte(4) {
			f.Add([]byte(text), from)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, from byte) {
		s := live(t)
		for range 2 {
			switch from % 4 {
			case 0:
				s.own(string(text))
			case 1:
				s.take(s.h.FromChannel(s.now, text))
			case 2:
				if wire.Valid(text) {
					s.from("t2", string(text))
				}
			case 3:
				s.event(reconnect.Received{Conn: 1, Data: text})
			}
			if left, ok := s.h.Next(s.now); ok && left < 0 {
				t.Fatalf("Next = %v", left)
			}
			s.take(s.h.Holds(s.now, true))
		}
		s.after(time.Minute)
		s.take(s.h.Resign(s.now))
		if got := s.after(time.Minute); len(got) > 0 {
			t.Fatalf("after the end: %v", got)
		}
	})
}
