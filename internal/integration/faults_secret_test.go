package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/reconnect"
)

// What a dial or the URL callback fails with may repeat the URL, which may hold a
// token: nothing that the client says does.
func TestNoFailureRepeatsTheURL(t *testing.T) {
	const dialled = "ws://server/ws?token=hush"
	fetch := func(c *http.Client) error {
		req, err := http.NewRequest(http.MethodPost, "http://server/login?token=hush", http.NoBody) //nolint:noctx // fails at once
		if err != nil {
			return err
		}
		resp, err := c.Do(req)
		if err == nil {
			return errors.Join(errors.New("it was answered"), resp.Body.Close())
		}
		return err
	}
	for name, test := range map[string]struct {
		serve func(net.Listener)
		url   func(c *http.Client) error // fails
		want  string                     // what is said nevertheless
	}{
		"a redirect that cannot be parsed": {
			serve: func(l net.Listener) {
				http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:errcheck,gosec // ends with the network
					w.Header().Set("Location", "http://[elsewhere?"+r.URL.RawQuery)
					w.WriteHeader(http.StatusFound)
				}))
			},
			want: "failed to parse Location header",
		},
		"an echo": {
			serve: func(l net.Listener) {
				for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
					io.Copy(conn, conn) //nolint:errcheck // ends with the connection
				}
			},
			want: "malformed HTTP",
		},
		"a callback that wraps": {
			url:  func(c *http.Client) error { return fmt.Errorf("no ticket: %w", fetch(c)) },
			want: "refused",
		},
		"a callback that quotes": {
			url: func(c *http.Client) error {
				return fmt.Errorf("no ticket: %v", fetch(c)) //nolint:errorlint // the fault under test
			},
			want: "no ticket",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := memnet.Listen()
				l := network.Listener()
				if test.serve != nil {
					go test.serve(l)
				} else {
					network.Refuse(true)
				}
				httpClient := httpClient(network.DialContext)
				var said, logged strings.Builder // two goroutines write
				client, err := reconnect.NewClient(reconnect.Options{
					URL: func(context.Context) (string, error) {
						if test.url != nil {
							return "", test.url(httpClient)
						}
						return dialled, nil
					},
					Probe:      "http://server/probe?token=hush",
					HTTPClient: httpClient,
					Logger:     slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
					OnState:    func(s reconnect.Status) { fmt.Fprintf(&said, "%+v\n", s) },
					OnProblem:  func(text string) { said.WriteString(text) },
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				end := client.Run(ctx)
				_ = l.Close()
				network.Cut()
				all := fmt.Sprintf("%s%s%v %+v %+v", &logged, &said, end, client.Status(), client.History())
				if strings.Contains(all, "hush") || strings.Contains(all, "token") {
					t.Errorf("the URL was repeated:\n%s", all)
				}
				if !strings.Contains(all, test.want) {
					t.Errorf("it was not said that %q:\n%s", test.want, all)
				}
			})
		})
	}
}
