package ticket_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/ticket"
)

func TestHandler(t *testing.T) {
	var logged strings.Builder
	a, err := ticket.New(ticket.Options{
		Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		Life:   20 * time.Second,
		Login: func(r *http.Request) (server.Identity, error) {
			switch user := r.Header.Get("User"); user {
			case "":
				return server.Identity{}, server.ErrUnauthorized
			case "banned":
				return server.Identity{}, server.ErrForbidden
			case "broken":
				return server.Identity{}, errors.New("the database is away")
			case "late":
				return server.Identity{User: user, Expires: time.Now()}, nil
			default:
				return server.Identity{User: user}, nil
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		method, user string
		header       [2]string
		status       int
	}{
		"a login":                  {"POST", "ada", [2]string{}, 200},
		"from the page":            {"POST", "ada", [2]string{"Sec-Fetch-Site", "same-origin"}, 200},
		"from the page, by origin": {"POST", "ada", [2]string{"Origin", "http://example.com"}, 200},
		"from another site":        {"POST", "ada", [2]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"from another host":        {"POST", "ada", [2]string{"Origin", "http://evil.example"}, 403},
		"from a sandbox":           {"POST", "ada", [2]string{"Origin", "null"}, 403},
		"nobody":                   {"POST", "", [2]string{}, 401},
		"a login that has ended":   {"POST", "late", [2]string{}, 401},
		"banned":                   {"POST", "banned", [2]string{}, 403},
		"a failure":                {"POST", "broken", [2]string{}, 503},
		"GET":                      {"GET", "ada", [2]string{}, 405},
		"HEAD":                     {"HEAD", "ada", [2]string{}, 405},
		"PUT":                      {"PUT", "ada", [2]string{}, 405},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), test.method, "http://example.com/ticket", http.NoBody)
			r.Header.Set("User", test.user)
			if test.header[0] != "" {
				r.Header.Set(test.header[0], test.header[1])
			}
			w := httptest.NewRecorder()
			a.Handler().ServeHTTP(w, r)
			if w.Code != test.status {
				t.Fatalf("status %d; want %d", w.Code, test.status)
			}
			var answer struct {
				Ticket    string
				ExpiresIn int
			}
			err := json.Unmarshal(w.Body.Bytes(), &answer)
			if test.status != http.StatusOK {
				if err == nil {
					t.Errorf("answered %s", w.Body)
				}
				return
			}
			if err != nil || answer.ExpiresIn != 20_000 || w.Header().Get("Cache-Control") != "no-store" ||
				w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%v: %+v %v", err, answer, w.Header())
			}
			if id, err := a.Authenticate(withTicket(answer.Ticket)); err != nil || id != ada {
				t.Errorf("the ticket is for %v, %v", id, err)
			}
		})
	}
	if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "the database is away") {
		t.Errorf("log:\n%s", got)
	}
}
