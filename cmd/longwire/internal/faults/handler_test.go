package faults

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

type noHost struct{}

func (noHost) Target() Target                      { return nil }
func (noHost) Restart(time.Duration, func()) error { return errDown }
func (noHost) Forgets() bool                       { return true }

func TestOnlyThisMachineMayBreakTheServer(t *testing.T) {
	h := New(nil).Handler(noHost{})
	for _, tc := range []struct {
		name   string
		change func(*http.Request)
		want   string // of the error, empty: allowed
	}{
		{"plain client", func(*http.Request) {}, ""},
		{"own page", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			r.Header.Set("Origin", "http://127.0.0.1:8080")
		}, ""},
		{"IPv6", func(r *http.Request) { r.RemoteAddr, r.Host = "[::1]:1234", "[::1]:8080" }, ""},
		{"localhost", func(r *http.Request) { r.Host = "localhost:8080" }, ""},
		{"foreign peer", func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1234" }, "peers on this machine"},
		{"rebound name", func(r *http.Request) { r.Host = "evil.example:8080" }, "evil.example:8080"},
		{"proxy", func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") }, "proxy"},
		{"page of another site", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, "another origin"},
		{"page of another port", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, "another origin"},
		{"old browser", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, "another origin"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8080/faults/reset", http.NoBody)
			r.RemoteAddr = "127.0.0.1:1234"
			tc.change(r)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if want := tc.want != ""; (w.Code == http.StatusForbidden) != want || !strings.Contains(w.Body.String(), tc.want) {
				t.Errorf("got %d %s, want an error with %q", w.Code, w.Body, tc.want)
			}
		})
	}
}

func TestAServerThatIsDownSaysSo(t *testing.T) {
	h := New(nil).Handler(noHost{})
	for _, query := range []string{"publish?stream=a&data=1", "publish-to?user=a&data=1", "restart"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/faults/"+query, http.NoBody)
		r.RemoteAddr = "127.0.0.1:1234"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "down") {
			t.Errorf("%s: %d %s, want 409", query, w.Code, w.Body)
		}
	}
}
