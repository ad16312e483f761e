package server

import (
	"reflect"
	"strings"
	"testing"

	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// feedOf is a Feed of a log alone.
type feedOf struct {
	Feed
	log *stream.Log
}

func (f feedOf) Log() *stream.Log { return f.log }

func topicOf(name string) *topic {
	return &topic{name: name, feed: feedOf{log: stream.NewLog("e", stream.Limits{})}}
}

func TestConnectionsAtOnePositionAreWrittenOneMessage(t *testing.T) {
	here := topicOf("s")
	one, two := [][]byte{[]byte("1")}, [][]byte{[]byte("1"), []byte("2")}
	s := new(sharing)
	message := func(t *topic, from uint64, data [][]byte, batch bool) *message {
		f := &follow{topic: t, cursor: t.log().Cursor(0, nil, nil)}
		return s.message(f, new(output), from, data, batch)
	}
	if message(here, 1, two, true) != nil {
		t.Error("made for one connection")
	}
	made := message(here, 1, two, true)
	if made == nil || message(here, 1, two, true) != made {
		t.Error("not made once for those after it")
	}
	if message(here, 1, one, true) != nil || message(here, 1, one, false) == nil {
		t.Error("one event alone is the same message with and without batches")
	}
	for name, alone := range map[string]struct {
		topic *topic
		from  uint64
		data  [][]byte
		batch bool
	}{
		"another position":         {here, 2, two, true},
		"another number of events": {here, 1, one, true},
		"another stream":           {topicOf("other"), 1, two, true},
		"no batches":               {here, 1, two, false},
		"a session's own stream":   {topicOf(""), 1, two, true},
		"a large event":            {here, 1, [][]byte{make([]byte, wire.BatchBytes+1)}, true},
		"nothing":                  {here, 1, nil, true},
	} {
		message(here, 1, two, true)
		message(here, 1, two, true)
		if message(alone.topic, alone.from, alone.data, alone.batch) != nil {
			t.Errorf("shared: %s", name)
		}
	}
}

// A message that is shared is written as it is, and is copied when it is not alone.
// A reader may still stand in a log that was just replaced.
func TestWhatWasReadFromTheLogBeforeIsNotShared(t *testing.T) {
	s, data := new(sharing), [][]byte{[]byte("1")}
	old := topicOf("s")
	f := &follow{topic: topicOf("s"), cursor: old.log().Cursor(0, nil, nil)}
	for range 2 {
		s.message(f, new(output), 1, data, true)
	}
	f.cursor = f.topic.log().Cursor(0, nil, nil)
	if s.message(f, new(output), 1, data, true) != nil {
		t.Error("what was read from one log is written to readers of another")
	}
}

func TestASharedMessageAmongOthers(t *testing.T) {
	share := func(array bool, data ...string) *output {
		o := new(output)
		var events [][]byte
		for _, d := range data {
			events = append(events, []byte(d))
		}
		o.share(o.encode("s", 5, events), array)
		return o
	}
	const event, events, pong = `{"t":"event","seq":5,"stream":"s","data":1}`, `{"t":"events","from":5,"stream":"s","data":[1,2]}`, `{"t":"pong","n":1}`
	large := strings.Repeat("x", wire.BatchBytes+1)
	for name, c := range map[string]struct {
		o    *output
		then func(o *output)
		want []string
	}{
		"one event":        {share(true, "1"), func(*output) {}, []string{event}},
		"two events":       {share(true, "1", "2"), func(*output) {}, []string{events}},
		"in an array":      {share(true, "1", "2"), func(o *output) { o.frame(wire.Pong{N: 1}, true) }, []string{"[" + events + "," + pong + "]"}},
		"then another":     {share(false, "1"), func(o *output) { o.frame(wire.Pong{N: 1}, false) }, []string{event, pong}},
		"then a large one": {share(true, "1"), func(o *output) { o.shared("s", []byte(large[:9]), []byte(large[9:]), nil, true) }, []string{event, large}},
	} {
		if c.o.isEmpty() || !c.o.holdsMessage() || c.o.left() >= wire.BatchBytes {
			t.Errorf("%s: empty %v, holds a message %v, %d left", name, c.o.isEmpty(), c.o.holdsMessage(), c.o.left())
		}
		lone := c.o.lone
		c.then(c.o)
		if got := received(t, c.o); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %.200q\nwant %.200q", name, got, c.want)
		}
		if c.o.frames != uint64(len(c.want)) || !reflect.DeepEqual(c.o.batches, []int{lone.events}) || c.o.sent != uint64(lone.events) { //nolint:gosec // counts
			t.Errorf("%s: counted %d messages, batches of %v and %d events", name, c.o.frames, c.o.batches, c.o.sent)
		}
	}
}
