package jsbridge

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hack-pad/safejs"
)

// TestMain fails the run on an uncaught exception or an unhandled rejection in the
// page, which the runner does not.
func TestMain(m *testing.M) {
	if os.Getenv(peerVariable) == "" {
		fmt.Fprintln(os.Stderr, "no peer to talk to: run `go test ./jsbridge` natively, which starts one and the browser")
		os.Exit(1)
	}
	var mu sync.Mutex
	var uncaught []string
	l, err := newListener("uncaught", func(event safejs.Value) {
		mu.Lock()
		defer mu.Unlock()
		what := textOf(event, "message")
		if reason, err := event.Get("reason"); err == nil && !reason.IsUndefined() {
			what += errorOf(reason).Error()
		}
		uncaught = append(uncaught, textOf(event, "type")+": "+what)
	})
	if err == nil {
		err = l.listen(safejs.Global(), "error", "unhandledrejection")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	mu.Lock()
	for _, what := range uncaught {
		fmt.Fprintln(os.Stderr, "uncaught in the page:", what)
		code = 1
	}
	os.Exit(code)
}

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// within returns a context for what must happen.
func within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// wait waits for c to be closed or to bring something.
func wait[T any](tb testing.TB, c <-chan T, what string) T {
	tb.Helper()
	select {
	case v := <-c:
		return v
	case <-within(tb).Done():
		tb.Fatalf("waited %v for %s", patience, what)
		panic("unreachable")
	}
}

var lastID int

// newID returns a name for a connection that the peer has not seen yet.
func newID() string {
	lastID++
	return strconv.Itoa(lastID)
}

// at returns the URL of a verb of the peer; args are names and values in turn.
func at(path, id string, args ...string) string {
	q := url.Values{"id": {id}}
	for i := 0; i < len(args); i += 2 {
		q.Add(args[i], args[i+1])
	}
	base := os.Getenv(peerVariable)
	if strings.HasPrefix(path, "/ws/") {
		base = "ws" + strings.TrimPrefix(base, "http")
	}
	return base + path + "?" + q.Encode()
}

// seen waits until the peer is done with a connection and returns its fate there.
func seen(t *testing.T, id string) string {
	t.Helper()
	return ask(t, at("/seen", id))
}

// ask returns the body of url.
func ask(t *testing.T, url string) string {
	t.Helper()
	response, err := await(t, must(safejs.Global().Call("fetch", url)))
	if err != nil {
		t.Fatalf("fetch: %v", err)
	}
	text, err := await(t, must(response.Call("text")))
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return must(text.String())
}

// await waits for a promise with nothing of this package, which is under test.
func await(t *testing.T, promise safejs.Value) (safejs.Value, error) {
	t.Helper()
	type result struct {
		value safejs.Value
		err   error
	}
	results := make(chan result, 1)
	then := must(safejs.FuncOf(func(_ safejs.Value, args []safejs.Value) any {
		results <- result{value: args[0]}
		return nil
	}))
	defer then.Release()
	fail := must(safejs.FuncOf(func(_ safejs.Value, args []safejs.Value) any {
		results <- result{err: errorOf(args[0])}
		return nil
	}))
	defer fail.Release()
	must(promise.Call("then", then, fail))
	r := wait(t, results, "a promise")
	return r.value, r.err
}

// must returns v; it panics on an error that only a broken test can cause.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
