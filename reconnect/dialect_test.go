package reconnect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// feed is the dialect of a market feed: it takes a subscription with the number of
// the last message, and numbers its messages.
func feed() *reconnect.Dialect {
	return &reconnect.Dialect{
		Hello:   `{"op":"subscribe","symbols":["A","B"],"since":"$after","sid":"$session"}`,
		Confirm: "type=subscribed", Session: "sid", Seq: "seq",
		Message: `{"op":"order","ref":"$id","order":"$body"}`, Ack: "done",
	}
}

func TestAFeedOfItsOwnDialectIsResumed(t *testing.T) {
	s := newScript(t, reconnect.Policy{Dialect: feed(), IdleTimeout: 30 * time.Second})
	s.do(reconnect.Subscribe{})
	s.do(reconnect.Start{})
	s.do(reconnect.URLReady{Attempt: 1, URL: "ws://x"})
	s.want(reconnect.Opened{Conn: 1}, `write 1 {"op":"subscribe","symbols":["A","B"],"since":null,"sid":null}`, "connecting")
	s.wantFrame(1, `{"type":"banner"}`)
	s.wantFrame(1, `{"type":"subscribed","sid":"x7"}`, "deliver welcome", "live")
	s.wantFrame(1, `{"seq":500,"price":1}`, `deliver {"t":"subbed","seq":499,"epoch":"x7","first":0,"resync":false}`, `deliver  500={"seq":500,"price":1}`)
	s.wantFrame(1, `{"type":"notice"}`) // not numbered
	s.wantFrame(1, `{"seq":501,"price":2}`, `deliver  501={"seq":501,"price":2}`)
	s.wantFrame(1, `{"seq":501,"price":2}`)

	// What is sent is acknowledged in its own way.
	s.want(send("m"), `write 1 {"op":"order","ref":"m","order":"m"}`)
	s.wantFrame(1, `{"done":"m","fill":3}`, `settle m accepted {"done":"m","fill":3}`)
	s.want(send("n"), `write 1 {"op":"order","ref":"n","order":"n"}`)

	// Resumed; what was written and not acknowledged is unknown, for this server
	// remembers no ids.
	s.do(reconnect.Closed{Conn: 1, Code: 1006})
	s.do(reconnect.DialNow{})
	s.do(reconnect.URLReady{Attempt: 2, URL: "ws://x"})
	s.want(reconnect.Opened{Conn: 2}, `write 2 {"op":"subscribe","symbols":["A","B"],"since":501,"sid":"x7"}`, "connecting")
	s.wantFrame(2, `{"type":"subscribed","sid":"x7"}`, "deliver welcome", "live", "settle n unknown  unknown")
	s.wantFrame(2, `{"seq":502}`, `deliver  502={"seq":502}`)
	// A hole is healed by a reconnect, and said if the server cannot.
	s.wantFrame(2, `{"seq":504}`, `problem hole in stream "": got 504 instead of 503`, "abandon 2 4400 hole in a stream", "waiting 8s")
	s.open()
	s.wantFrame(3, `{"type":"subscribed","sid":"x7"}`, "deliver welcome", "live")
	s.wantFrame(3, `{"seq":504}`, `deliver {"t":"reset","seq":503,"epoch":"x7","first":0,"snapshot":false,"reason":"this server did not replay what was missed"}`,
		`deliver  504={"seq":504}`, "live")
	// Silence is noticed by traffic alone.
	s.wantAfter(30*time.Second, "live", "abandon 3 4408 nothing heard for 30s", "waiting 4s")
}

func TestHostileMessagesInADialect(t *testing.T) {
	for text, problem := range map[string]string{
		`nonsense`:                 "message is not valid JSON",
		`{"seq":"7"}`:              "seq: must be an integer from 0 to 2^53-1",
		`{"seq":-1}`:               "seq: must be an integer from 0 to 2^53-1",
		`{"seq":9007199254740993}`: "seq: must be an integer from 0 to 2^53-1",
	} {
		s := newScript(t, reconnect.Policy{Dialect: feed()})
		s.do(reconnect.Subscribe{})
		s.do(reconnect.Start{})
		s.open()
		s.frame(1, `{"type":"subscribed"}`)
		s.wantFrame(1, text, "problem bad message from the server: "+problem, "abandon 1 4400 "+problem, "waiting 4s")
	}
	s := newScript(t, reconnect.Policy{Dialect: feed()})
	s.do(reconnect.Subscribe{})
	s.do(reconnect.Start{})
	s.open()
	s.frame(1, `{"type":"subscribed"}`)
	s.wantFrame(1, `{"seq":0}`)
	s.want(reconnect.Received{Conn: 1, Data: []byte{1}, Binary: true}, "problem a binary message, which is not delivered")
}

func TestAnyWebSocketIsReconnected(t *testing.T) {
	d := reconnect.Plain()
	d.Text = true
	s := newScript(t, reconnect.Policy{Dialect: d})
	s.do(reconnect.Subscribe{})
	s.do(reconnect.Subscribe{Stream: "named"})
	s.do(reconnect.Start{})
	s.do(reconnect.URLReady{Attempt: 1, URL: "ws://x"})
	s.want(reconnect.Opened{Conn: 1}, "deliver welcome", `deliver {"t":"subbed","stream":"named","error":"this server knows no named streams"}`, "live")
	s.wantFrame(1, `say "hi"`, `deliver  1="say \"hi\""`)
	s.wantFrame(1, ``, `deliver  2=""`)
	s.want(reconnect.Send{ID: "m", Body: wire.Raw(`{"any":"thing"}`)}, `write 1 {"any":"thing"}`, "settle m accepted")
	s.do(reconnect.Closed{Conn: 1, Code: 1006})
	s.do(send("late"))
	s.do(reconnect.DialNow{})
	s.do(reconnect.URLReady{Attempt: 2, URL: "ws://x"})
	// It cannot replay, and that is said.
	s.want(reconnect.Opened{Conn: 2}, "deliver welcome", `deliver {"t":"subbed","stream":"named","error":"this server knows no named streams"}`, "live",
		`deliver {"t":"reset","seq":2,"epoch":"dialect","first":0,"snapshot":false,"reason":"this server cannot replay"}`,
		`write 2 late`, "settle late accepted", "live")
	s.wantFrame(2, `more`, `deliver  3="more"`)
}

func TestDialectErrorsNameTheField(t *testing.T) {
	for want, d := range map[string]reconnect.Dialect{
		"Dialect.Hello: is not valid JSON":        {Hello: "{"},
		`Dialect.Message: has no "$body"`:         {Message: `{"x":1}`},
		`Dialect.Ack: needs a Message with "$id"`: {Ack: "done"},
		"Dialect.Session: needs Confirm":          {Session: "sid"},
		"Dialect.Text: plain text has no members": {Text: true, Seq: "n"},
		"Dialect.Message: is not valid JSON":      {Message: `"$body`},
	} {
		_, err := reconnect.NewMachine(reconnect.Policy{Rand: func() float64 { return 0 }, Dialect: &d})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
