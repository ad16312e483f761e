package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

func TestMalformedFramesCloseTheirConnectionOnly(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for _, tt := range []struct {
		name, text string
		code       int
		reason     string
	}{
		{"not JSON", `not-json`, 4400, "\"not-json\": frame is not a JSON object"},
		{"nothing", ``, 4400, "frame is not a JSON object"},
		{"empty object", `{}`, 4400, "t: \"{}\": missing, or not a string"},
		{"empty array", `[]`, 4400, "message is an array"},
		{"null", `null`, 4400, "\"null\": frame is not a JSON object"},
		{"array of one", ` [{"t":"ping","n":1}]`, 4400, "message is an array"},
		{"text behind", `{"t":"ping","n":1}x`, 4400, "ping: "},
		{"seq as string", `{"t":"sub","stream":"s","after":"1"}`, 4400, "sub: after: \"\\\"1\\\"\": must be an integer"},
		{"negative", `{"t":"sub","stream":"s","after":-1}`, 4400, "sub: after: \"-1\": must be an integer"},
		{"fraction", `{"t":"ping","n":1.5}`, 4400, "ping: n: \"1.5\": must be an integer"},
		{"NaN", `{"t":"ping","n":NaN}`, 4400, ""},
		{"beyond 2^53", `{"t":"ping","n":9007199254740992}`, 4400, "ping: n: "},
		{"bad stream", `{"t":"sub","stream":"a b"}`, 4400, "sub: stream: "},
		{"long id", `{"t":"msg","id":"` + long[:65] + `","body":1}`, 4400, "msg: id: "},
		{"no id", `{"t":"msg","body":1}`, 4400, "msg: id: "},
		{"no body", `{"t":"msg","id":"1"}`, 4400, "msg: body: missing"},
		{"nesting", `{"t":"msg","id":"1","body":` + strings.Repeat("[", 30_000) + `}`, 4400, "msg: "},
		{"second resume", `{"t":"resume","v":1}`, 4400, "resume: a second one"},
		{"server's frame", `{"t":"event","seq":1,"data":1}`, 4400, "event: not a frame of a client"},
		{"invalid UTF-8", "{\"t\":\"msg\",\"id\":\"1\",\"body\":\"\xff\"}", 1007, "message is not valid UTF-8"},
		{"too big", `{"t":"msg","id":"1","body":"` + long + `"}`, 1009, "message larger than 65536 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, server.Options{OnMessage: echo}, func(t *testing.T, w *world) {
				other := w.join("ann")
				c := w.join("ann")
				c.send("%s", tt.text)
				c.closed(tt.code, tt.reason)
				hello := w.dial("ann")
				if tt.name != "second resume" && tt.name != "too big" {
					hello.send("%s", tt.text)
					code := tt.code
					hello.closed(code, "")
				}
				other.send(`{"t":"ping","n":1}`)
				other.expect(wire.Pong{N: 1})
				synctest.Wait()
				want(t, "sessions", w.srv.Stats().Sessions, 2)
			})
		})
	}
}

// What is no frame of RFC 6455, and the close code: 0 for those of which the library
// drops the connection without a word.
var brokenFrames = []struct {
	name, bytes string
	code        int
}{
	{"reserved bit", "\xc1\x80\x00\x00\x00\x00", 1002},
	{"reserved opcode", maskedFrame(0x83, "x"), 1002},
	{"reserved control opcode", maskedFrame(0x8b, "x"), 1002},
	{"no mask", "\x81\x02{}", 0},
	{"ping in fragments", maskedFrame(0x09, "x"), 1002},
	{"long ping", maskedFrame(ping, strings.Repeat("x", 126)), 1002},
	{"negative length", "\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", 0},
	{"end without a beginning", maskedFrame(textEnd, "{}"), 1002},
	{"a message within another", maskedFrame(textBegin, "{") + maskedFrame(text, "{}"), 1002},
	{"too big in fragments", maskedFrame(textBegin, strings.Repeat("[", 1<<15)) +
		strings.Repeat(maskedFrame(0x00, strings.Repeat("[", 1<<15)), 3), 1009},
}

func TestBrokenWebSocketFramesCloseTheirConnectionOnly(t *testing.T) {
	for _, tt := range brokenFrames {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, server.Options{}, func(t *testing.T, w *world) {
				other := w.join("ann")
				for _, hello := range []string{fullHello, `{"t":"resume"}`} {
					c := w.raw(hello)
					c.write(tt.bytes)
					c.ended()
					want(t, "code", c.code, tt.code)
				}
				c := w.upgrade()
				c.write(tt.bytes)
				c.ended()
				other.send(`{"t":"ping","n":1}`)
				other.expect(wire.Pong{N: 1})
				synctest.Wait()
				want(t, "connections", w.srv.Stats().Connections, 1)
			})
		})
	}
}

// A message in fragments is one message, and a ping between them is answered.
func TestMessageInFragments(t *testing.T) {
	inWorld(t, server.Options{OnMessage: echo}, func(t *testing.T, w *world) {
		c := w.raw(fullHello)
		c.write(maskedFrame(textBegin, `{"t":"msg","id":"1",`) + maskedFrame(ping, "x") + maskedFrame(0x00, `"bo`) + maskedFrame(textEnd, `dy":1}`))
		synctest.Wait()
		want(t, "messages", w.srv.Stats().Messages, 1)
	})
}

// Close frames of every oddity.
var closeFrames = []struct{ name, payload string }{
	{"empty", ""},
	{"code only", "\x03\xe8"},
	{"longest reason", "\x0f\xa0" + strings.Repeat("r", 123)},
	{"reason not UTF-8", "\x03\xe8\xff\xfe"},
	{"one byte", "\x03"},
	{"reserved code", "\x03\xee"},
	{"unknown code", "\xff\xff"},
	{"longer than may be", "\x03\xe8" + strings.Repeat("r", 124)},
}

// However a client says goodbye, its session can be resumed.
func TestOddCloseFramesEndTheirConnectionOnly(t *testing.T) {
	for _, tt := range closeFrames {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, server.Options{}, func(t *testing.T, w *world) {
				other := w.join("ann")
				c := w.raw(fullHello)
				c.write(maskedFrame(closing, tt.payload))
				c.ended()
				c = w.upgrade()
				c.write(maskedFrame(closing, tt.payload))
				c.ended()
				other.send(`{"t":"ping","n":1}`)
				other.expect(wire.Pong{N: 1})
				synctest.Wait()
				stats := w.srv.Stats()
				want(t, "connections, sessions", []int{stats.Connections, stats.Sessions}, []int{1, 2})
			})
		})
	}
}

func TestHelloThatIsNoResume(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		for text, reason := range map[string]string{
			`{"t":"ping","n":1}`:                               "ping: the first frame must be resume",
			`{"t":"whatever"}`:                                 "whatever: the first frame must be resume",
			`{"t":"resume","subs":{"a b":{}}}`:                 "resume: subs.a b: stream name",
			`{"t":"resume","subs":[]}`:                         "resume: subs: \"[]\": must be an object",
			`{"t":"resume","session":"` + long(65) + `"}`:      "resume: session: is too long",
			`{"t":"resume","gen":-1}`:                          "resume: gen: \"-1\"",
			`{"t":"resume","subs":{"s":{"after":1,"epoch":1}}`: "resume: ",
		} {
			c := w.dial("ann")
			c.send("%s", text)
			c.closed(wire.CloseBadRequest, reason)
		}
		c := w.dial("ann")
		go func() { _ = c.ws.Write(context.Background(), websocket.MessageText, []byte(long(10<<20))) }()
		c.closed(wire.CloseTooBig, "message larger than 262144 bytes")
		synctest.Wait()
		want(t, "connections, sessions", []int{w.srv.Stats().Connections, w.srv.Stats().Sessions}, []int{0, 0})
	})
}

func long(n int) string { return strings.Repeat("x", n) }

func TestBinaryIsNotSpoken(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		for _, c := range []*client{w.dial("ann"), w.join("ann")} {
			if err := c.ws.Write(t.Context(), websocket.MessageBinary, []byte(`{"t":"ping","n":1}`)); err != nil {
				t.Fatal(err)
			}
			c.closed(wire.CloseUnsupported, "binary message")
		}
	})
}

func TestLargeResumeIsTaken(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		c := w.join("ann", `"ignored":"`+long(200_000)+`"`)
		c.send(`{"t":"unknown type","n":-1}`)
		c.send(`{"t":"ping","n":1,"ignored":[1,{"a":null}]}`)
		c.expect(wire.Pong{N: 1})
	})
}

// A frame that announces more than it sends must hold neither memory nor the
// close handshake.
func TestFrameThatNeverEnds(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		conn, err := w.net.DialContext(t.Context(), "tcp", "host")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // test
		write := func(b string) {
			if _, err := conn.Write([]byte(b)); err != nil {
				t.Fatal(err)
			}
		}
		write("GET /ws HTTP/1.1\r\nHost: host\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
		const hello = `{"t":"resume"}`
		// Sent together with the handshake of the frame: early bytes must not be lost.
		write("\x81" + string([]byte{0x80 | byte(len(hello))}) + "\x00\x00\x00\x00" + hello)
		write("\x81\xff\x0f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00" + long(100_000))
		time.Sleep(time.Minute)
		want(t, "connections", w.srv.Stats().Connections, 0)
		want(t, "welcomes", w.srv.Stats().Welcomes, 1)
	})
}

// The first frame may come in the same packet as the handshake.
func TestEarlyBytesAreKept(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		conn, err := w.net.DialContext(t.Context(), "tcp", "host")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // test
		hello := `{"t":"resume","ignored":"` + long(2000) + `"}`
		frame := string([]byte{0x81, 0xfe, byte(len(hello) >> 8), byte(len(hello)), 0, 0, 0, 0}) + hello
		if _, err := conn.Write([]byte("GET /ws HTTP/1.1\r\nHost: host\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n" + frame)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(t, "welcomes", w.srv.Stats().Welcomes, 1)
	})
}

func TestPayloadsOfTheApplicationAreChecked(t *testing.T) {
	inWorld(t, server.Options{Log: stream.Limits{Bytes: 2000}}, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"s":{}}`)
		for _, tt := range []struct{ stream, data, problem string }{
			{"s", ``, "data: not valid JSON"},
			{"s", `1],"x":[2`, "data: not valid JSON"},
			{"s", "\"\xff\"", "data: not valid UTF-8"},
			{"s", strings.Repeat("[", 600) + strings.Repeat("]", 600), "data: nests too deep"},
			{"s", `"` + long(2000) + `"`, "2002 bytes, at most 2000"},
			{"", `1`, "stream \"\""},
			{"a b", `1`, "stream \"a b\""},
			{long(129), `1`, "stream"},
		} {
			_, err := w.srv.Publish(t.Context(), tt.stream, []byte(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("Publish(%.10q, %.20q) = %v; want %q", tt.stream, tt.data, err, tt.problem)
			}
		}
		if _, err := w.srv.PublishTo(t.Context(), "ann", []byte(`{`)); err == nil {
			t.Error("PublishTo took what is not JSON")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.srv.Publish(ctx, "s", []byte(`1`)); err == nil {
			t.Error("Publish with an ended context succeeded")
		}
		deep := strings.Repeat("[", 500) + strings.Repeat("]", 500)
		w.publish("s", " 1 ", deep)
		c.expect(event("s", 1, "1"), event("s", 2, deep))
	})
}

func TestOptionsAreNamedWhenBad(t *testing.T) {
	_, err := server.New(server.Options{
		Heartbeat: time.Millisecond, Spread: -1, HelloTimeout: -1, WriteTimeout: -1, SnapshotTimeout: -1,
		SessionLife: -1, StreamLife: time.Minute, DedupeWindow: -1, DedupeLimit: -1, Window: 5000, Follows: -1,
		Streams: -1, UserSessions: -1, IdleSessions: -1, Snapshots: -1,
		Origins: []string{"https://ok.example:8443", "example.com", "https://x.example/path", "*"},
		Log:     stream.Limits{Events: -1, Age: time.Hour},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{
		"Heartbeat: 1ms", "Spread", "HelloTimeout", "WriteTimeout", "SnapshotTimeout", "SessionLife", "StreamLife: 1m0s",
		"DedupeWindow", "DedupeLimit", "Window: 5000", "Follows", "Streams", "UserSessions", "IdleSessions", "Snapshots",
		`Origins[1]: "example.com"`, "Origins[2]", "Origins[3]", "Limits.Events",
	} {
		if !strings.Contains(err.Error(), "Options."+name) && !strings.Contains(err.Error(), name) {
			t.Errorf("error does not name %s:\n%v", name, err)
		}
	}
	if strings.Contains(err.Error(), "Origins[0]") {
		t.Errorf("a good origin is called bad:\n%v", err)
	}
	if _, err := server.New(server.Options{}); err != nil {
		t.Errorf("the zero options: %v", err)
	}
}

func TestNoTokenInLogs(t *testing.T) {
	var logged strings.Builder
	const token = "s3cr3t"
	inWorld(t, server.Options{
		Logger:   slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Snapshot: func(context.Context, string) (server.Snapshot, error) { panic("oops") },
		OnMessage: func(context.Context, server.Message) (json.RawMessage, error) {
			panic("oops")
		},
	}, func(_ *testing.T, w *world) {
		c := w.dial(token)
		c.send(`{"t":"resume","v":1,"session":%q,"user":%q,"subs":{"s":{}}}`, token, token)
		c.msg("1", token)
		c.until("nack")
		c.send(`{"t":"msg","id":"2","body":1`)
		c.closed(4400, "")
		c = w.dial(token)
		c.send(`{"t":"resume","v":1,"session":[%q]}`, token)
		c.closed(4400, "")
	})
	if got := logged.String(); strings.Contains(got, token) || !strings.Contains(got, "malformed") {
		t.Errorf("log:\n%s", got)
	}
}
