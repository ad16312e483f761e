package jsbridge

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/hack-pad/safejs"
)

// CodeTooBig is the close code of a message above SocketHandler.MaxMessage: the
// server is sent it, and CloseInfo reports it.
const CodeTooBig = 4009

// CloseInfo says how a socket ended.
type CloseInfo struct {
	// Code is the close code: the server's; 1005 where it named none; 1006 for a
	// connection lost or never made; CodeTooBig.
	Code int
	// Reason is the server's reason, or this package's for CodeTooBig.
	Reason string
	// Clean is the browser's wasClean: both ends closed the WebSocket properly.
	Clean bool
}

// SocketHandler is who a Socket reports to. All three functions are called from
// one goroutine of the socket, in the order in which things arrived, and never
// within JavaScript's call, so they may wait; messages queue without bound
// meanwhile. Any of them may be nil.
type SocketHandler struct {
	// Open is called first, once the connection stands.
	Open func()
	// Message gets each message; data is the callee's to keep. binary tells a
	// binary message from a text one.
	Message func(data []byte, binary bool)
	// Close is called last, exactly once, after every message that had arrived,
	// also where the connection never opened. Not after Abandon.
	Close func(CloseInfo)
	// MaxMessage is the largest message taken, in bytes; zero or less: any. A
	// larger one is not delivered: the socket is abandoned with CodeTooBig, and
	// Close says so.
	MaxMessage int
	// Make, if it is a function, makes the socket in place of the page's constructor,
	// from the URL and MaxMessage. The socket may be open already if it tells so by an
	// event later, and may bring whatever it makes of its messages: MaxMessage is kept
	// there.
	Make safejs.Value
}

// Socket is one WebSocket of the browser, dialled once. Its methods may be called
// from any goroutine and from within callbacks; none of them waits.
//
// coder/websocket carries the messages. Its browser half loses the close code and
// frames that arrive right before a close, cannot leave a socket, and waits in
// Close for the peer. So the socket is made here, closed here, and coder's buffer
// is emptied before the end is reported.
type Socket struct {
	handler SocketHandler
	ws      safejs.Value
	events  *listener
	conn    atomic.Pointer[websocket.Conn]
	gone    atomic.Bool // abandoned: no further callback

	// info is how the socket ended: written within the close event, before coder's
	// own listener wakes the goroutine that reads it.
	info CloseInfo
}

// Dial opens a WebSocket to url, which may be what the browser's constructor
// takes, and returns at once; h.Open or h.Close tells how it went. There is no
// time limit: Abandon ends an attempt.
//
// A URL that the browser refuses is an error, which does not repeat the URL's
// user, query and fragment; so is a place without WebSocket, or one where the page
// has made globalThis.WebSocket read-only.
func Dial(url string, h SocketHandler) (*Socket, error) {
	constructor, ok := global("WebSocket")
	if !ok {
		return nil, errors.New("jsbridge: there is no WebSocket here")
	}
	ws, err := h.construct(constructor, url)
	if err != nil {
		return nil, urlError("open a WebSocket to", url, thrown(err))
	}
	s := &Socket{handler: h, ws: ws, info: CloseInfo{Code: codeLost}}
	s.events, err = newListener("socket event", s.onEvent)
	if err != nil {
		return nil, err
	}
	err = s.events.listen(ws, "close", "error")
	if err == nil {
		started := make(chan error)
		go s.run(constructor, started)
		err = <-started // comes before anything that the browser brings
	}
	if err != nil {
		s.Abandon(codeUnnamed, "")
		return nil, err
	}
	return s, nil
}

func (h *SocketHandler) construct(constructor safejs.Value, url string) (safejs.Value, error) {
	if h.Make.Type() != safejs.TypeFunction {
		return constructor.New(url)
	}
	limit := h.MaxMessage
	h.MaxMessage = 0
	return h.Make.Invoke(url, limit)
}

// Send sends a text message. It fails with ErrNotOpen unless the socket is open (a
// browser drops without a word what is sent while it closes), and when text is not
// UTF-8. No error means that the browser took the message, not that it left the machine.
func (s *Socket) Send(text []byte) error {
	conn := s.conn.Load()
	if conn == nil || s.gone.Load() {
		return ErrNotOpen
	}
	state, err := numberOf(s.ws, "readyState")
	if err != nil || state != readyStateOpen {
		return ErrNotOpen
	}
	if !utf8.Valid(text) {
		return errors.New("jsbridge: send: the text is not valid UTF-8")
	}
	return failed("send", conn.Write(context.Background(), websocket.MessageText, text))
}

// readyStateOpen is OPEN of the browser's WebSocket.
const readyStateOpen = 1

// ErrNotOpen is the error of Send on a socket that is not open yet, or no longer.
var ErrNotOpen = errors.New("jsbridge: send: the socket is not open")

// Close starts the closing handshake and returns at once; messages still arrive
// until h.Close is called, which on a dead path can take minutes. Before the
// connection stands it ends the attempt. A second close does nothing.
//
// Browsers refuse all codes but 1000 and 3000-4999. The protocol's own, 1001 to
// 1015, are sent as 4001 to 4015, any other as 4000. The reason is cut to 123
// bytes at the end of a character; what is not UTF-8 in it becomes U+FFFD.
func (s *Socket) Close(code int, reason string) {
	//nolint:errcheck // code and reason are legal, and closing twice is no error
	s.ws.Call("close", legalCode(code), clipReason(reason))
}

// Abandon leaves the socket at once, in whatever state it is: no callback begins
// any more, and everything held for it is released without waiting for the peer.
// The server is sent code and reason as by Close, if it can be reached.
func (s *Socket) Abandon(code int, reason string) {
	s.gone.Store(true)
	s.leave(code, reason)
}

// leave closes the socket and ends everything that hangs on it.
func (s *Socket) leave(code int, reason string) {
	s.events.remove()
	s.Close(code, reason)
	// What coder holds it releases in the close event, which can be minutes away:
	// give it one. Without the listener above nobody else hears it.
	if err := dispatchClose(s.ws); err != nil {
		reportPanic("socket abandon", err)
	}
}

// Buffered returns how many bytes were sent but have not left the browser yet.
// After the end of the connection it keeps what was never sent.
func (s *Socket) Buffered() int {
	n, err := numberOf(s.ws, "bufferedAmount")
	if err != nil {
		return 0
	}
	return n
}

// onEvent hears a close or error event before coder does.
func (s *Socket) onEvent(event safejs.Value) {
	if textOf(event, "type") == "error" {
		// It says nothing, and the close event follows. coder would close the socket
		// with 1011: browsers throw, and where one does not, coder waits in the event.
		//nolint:errcheck // an event has this method
		event.Call("stopImmediatePropagation")
		return
	}
	s.events.remove()
	if code, err := numberOf(event, "code"); err == nil {
		s.info.Code = code
	}
	s.info.Reason = textOf(event, "reason")
	s.info.Clean = isTrue(event, "wasClean")
}

// codeLost is RFC 6455's code for a connection that ended without a close frame.
const codeLost = 1006

// run is the socket's goroutine: it connects, reads and reports. It says on
// started when coder holds the socket, or why it never will.
func (s *Socket) run(constructor safejs.Value, started chan<- error) {
	restore, err := standIn(constructor, s.ws)
	if err != nil {
		started <- err
		return
	}
	conn := takeOver(sync.OnceFunc(func() {
		restore()
		close(started)
	}))
	if conn != nil {
		conn.SetReadLimit(-1) // above a limit coder closes with a code that throws
		s.conn.Store(conn)
		s.callOpen()
		s.readAll(conn)
	}
	s.callClose()
}

// takeOver has coder take over the socket that stands in, and waits until it is
// open. It calls begun once that socket's events are coder's; nil: it never opened.
func takeOver(begun func()) *websocket.Conn {
	defer begun()
	defer recoverPanic("socket dial")
	conn, _, err := websocket.Dial(dialContext{waiting: begun}, "", nil)
	if err != nil {
		return nil // it only says that it is closed; the close event says why
	}
	return conn
}

// readAll delivers every message until the end, including those that coder still
// holds when it first reports the end: it then picks at random between the two.
func (s *Socket) readAll(conn *websocket.Conn) {
	for misses := 0; misses < drainMisses && !s.gone.Load(); {
		kind, data, err := conn.Read(context.Background())
		if err != nil {
			misses++
			continue
		}
		misses = 0
		if limit := s.handler.MaxMessage; limit > 0 && len(data) > limit {
			s.tooBig(len(data))
			return
		}
		s.callMessage(data, kind == websocket.MessageBinary)
	}
}

// drainMisses is how many times in a row coder must report the end before its
// buffer counts as empty. Each has an even chance to be wrong.
const drainMisses = 64

// tooBig leaves the socket over a message of n bytes.
func (s *Socket) tooBig(n int) {
	reason := "message of " + strconv.Itoa(n) + " bytes exceeds the limit of " + strconv.Itoa(s.handler.MaxMessage)
	s.leave(CodeTooBig, reason)
	s.info = CloseInfo{Code: CodeTooBig, Reason: reason}
}

func (s *Socket) callOpen() {
	if s.handler.Open == nil || s.gone.Load() {
		return
	}
	defer recoverPanic("socket open")
	s.handler.Open()
}

func (s *Socket) callMessage(data []byte, binary bool) {
	if s.handler.Message == nil || s.gone.Load() {
		return
	}
	defer recoverPanic("socket message")
	s.handler.Message(data, binary)
}

func (s *Socket) callClose() {
	if s.handler.Close == nil || s.gone.Load() {
		return
	}
	defer recoverPanic("socket close")
	s.handler.Close(s.info)
}

// standIn puts into globalThis.WebSocket a constructor that makes ws, whatever its
// arguments, and returns what puts the page's own back: `new Object(x)` is x.
// coder constructs its socket there before it first waits, so the page never sees
// the stand-in.
func standIn(constructor, ws safejs.Value) (restore func(), err error) {
	object, err := safejs.Global().Get("Object")
	if err != nil {
		return nil, failed("find Object", err)
	}
	maker, err := object.Call("bind", safejs.Null(), ws)
	if err != nil {
		return nil, failed("bind Object", err)
	}
	if err := safejs.Global().Set("WebSocket", maker); err != nil {
		return nil, failed("replace WebSocket", err)
	}
	if now, err := safejs.Global().Get("WebSocket"); err != nil || !now.Equal(maker) {
		return nil, errors.New("jsbridge: the page does not let WebSocket be replaced")
	}
	return func() {
		//nolint:errcheck // it could be replaced a moment ago
		safejs.Global().Set("WebSocket", constructor)
	}, nil
}

// dispatchClose makes ws believe that its close event has come.
func dispatchClose(ws safejs.Value) error {
	constructor, err := safejs.Global().Get("Event")
	if err != nil {
		return err
	}
	event, err := constructor.New("close")
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		value any
	}{{"code", codeLost}, {"reason", ""}, {"wasClean", false}} {
		if err = event.Set(f.name, f.value); err != nil {
			return err
		}
	}
	_, err = ws.Call("dispatchEvent", event)
	return err
}

// dialContext is a context without an end: coder answers the end of one with a
// close code that throws, and leaves the socket open. coder asks for Done when it
// has taken the socket and all its events over and is about to wait.
type dialContext struct{ waiting func() }

func (c dialContext) Done() <-chan struct{}     { c.waiting(); return nil }
func (dialContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (dialContext) Err() error                  { return nil }
func (dialContext) Value(any) any               { return nil }
