package ticket_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/ticket"
	"github.com/longwire/longwire/wire"
)

// transcript is all that both ends say.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *transcript) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// site is a server with cookies and tickets, and a program that uses it as a page
// would.
type site struct {
	t      *testing.T
	said   *transcript
	used   *shared
	srv    *server.Server
	mux    *http.ServeMux
	logins atomic.Bool // logins are good

	http   *http.Client
	base   string // "http://host"
	client *reconnect.Client

	mu      sync.Mutex
	tickets []string // in the order in which they were fetched
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, said: &transcript{}, used: &shared{}, mux: http.NewServeMux()}
	s.logins.Store(true)
	tickets, err := ticket.New(ticket.Options{
		Login: func(r *http.Request) (server.Identity, error) {
			if !s.logins.Load() {
				return server.Identity{}, server.ErrUnauthorized
			}
			return byCookie(r)
		},
		Used:   s.used,
		Logger: s.said.logger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.srv, err = server.New(server.Options{Authenticate: tickets.Authenticate, NoOrigin: true, Spread: time.Millisecond, Logger: s.said.logger()})
	if err != nil {
		t.Fatal(err)
	}
	s.mux.Handle("/ws", s.srv)
	s.mux.Handle("/probe", s.srv.Probe())
	s.mux.Handle("/ticket", tickets.Handler())
	return s
}

func (s *site) cookie(context.Context) (http.Header, error) {
	return http.Header{"Cookie": {"user=ada"}}, nil
}

// url is what the package's documentation tells a page to do.
func (s *site) url(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/ticket", http.NoBody)
	if err != nil {
		return "", err
	}
	req.Header, _ = s.cookie(ctx)
	resp, err := s.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return s.dialled(""), nil
	case http.StatusOK:
	default:
		return "", errors.New("no ticket: " + resp.Status)
	}
	var answer struct{ Ticket string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tickets = append(s.tickets, answer.Ticket)
	return s.dialled(answer.Ticket), nil
}

func (s *site) dialled(text string) string {
	target := strings.Replace(s.base, "http", "ws", 1) + "/ws"
	if text != "" {
		target += "?ticket=" + text
	}
	return target
}

// fetched returns the tickets so far, and checks that none is there twice.
func (s *site) fetched() []string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(slices.Compact(slices.Sorted(slices.Values(s.tickets)))); n != len(s.tickets) {
		s.t.Errorf("%d of %d tickets are different", n, len(s.tickets))
	}
	return slices.Clone(s.tickets)
}

// run runs a client; its end is what the channel brings. live, if not nil, is told
// of each session.
func (s *site) run(live chan<- string) <-chan error {
	s.t.Helper()
	var err error
	var was reconnect.State
	s.client, err = reconnect.NewClient(reconnect.Options{
		URL: s.url, Header: s.cookie, Probe: s.base + "/probe", HTTPClient: s.http,
		Logger: s.said.logger(),
		OnState: func(st reconnect.Status) {
			fmt.Fprintf(s.said, "%+v %+v\n", st, st.LastClose)
			if st.State == reconnect.Live && was != st.State && live != nil {
				live <- st.Session
			}
			was = st.State
		},
		OnProblem: func(text string) { fmt.Fprintln(s.said, text) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.client.Run(s.t.Context()) }()
	return ended
}

// replayed checks that none of the tickets is good for another dial.
func (s *site) replayed(tickets []string) {
	s.t.Helper()
	for i, text := range tickets {
		ws, resp, err := websocket.Dial(s.t.Context(), s.dialled(text), &websocket.DialOptions{HTTPClient: s.http})
		if err == nil {
			_ = ws.CloseNow()
			s.t.Errorf("ticket %d was good again", i)
		} else if resp == nil || resp.StatusCode != http.StatusUnauthorized {
			s.t.Errorf("ticket %d: %v", i, err)
		}
	}
}

// kept checks that nothing that was said has a piece of a ticket in it, of 15 bytes
// or more.
func (s *site) kept(further ...any) {
	s.t.Helper()
	said := s.said.String() + fmt.Sprintf("%+v %+v", s.srv.Stats(), further)
	for _, text := range s.fetched() {
		// The first segment is the same for all, and known to all.
		for _, secret := range strings.Split(text, ".")[1:] {
			for i := 0; i+8 <= len(secret); i += 8 {
				if strings.Contains(said, secret[i:i+8]) {
					s.t.Fatalf("a ticket was said:\n%s", said)
				}
			}
		}
	}
}

// inBubble runs f with a site on a network in memory, in virtual time.
func inBubble(t *testing.T, f func(s *site, network *memnet.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		s := newSite(t)
		network := memnet.Listen()
		s.base = "http://host"
		s.http = &http.Client{Transport: &http.Transport{DialContext: network.DialContext, DisableKeepAlives: true}}
		hs := &http.Server{Handler: s.mux, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(s.said, "", 0)}
		go hs.Serve(network.Listener()) //nolint:errcheck // ends with ErrServerClosed
		t.Cleanup(func() {
			_ = s.srv.Close()
			_ = hs.Close()
		})
		f(s, network)
	})
}

// until lets virtual time pass until the client is in a state, ten minutes at most.
func (s *site) until(state reconnect.State) {
	s.t.Helper()
	for range 6000 {
		synctest.Wait()
		if s.client.Status().State == state {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Fatalf("not %v within ten minutes: %+v", state, s.client.Status())
}

func TestEveryDialHasAFreshTicketAndNobodyIsToldAny(t *testing.T) {
	inBubble(t, func(s *site, network *memnet.Network) {
		ended := s.run(nil)
		s.until(reconnect.Live)
		session := s.client.Status().Session

		network.Cut()
		time.Sleep(10 * time.Second)
		s.until(reconnect.Live)
		if got := s.fetched(); len(got) != 2 || s.client.Status().Session != session {
			t.Errorf("%d tickets, session %q; want 2, and the one from before, %q", len(got), s.client.Status().Session, session)
		}

		// Nobody is there: the fetch of a ticket fails.
		network.Refuse(true)
		network.Cut()
		time.Sleep(2 * time.Minute)
		network.Refuse(false)
		s.until(reconnect.Live)

		// The dials fail, and the probes do not, or hang.
		for _, mute := range []bool{false, true} {
			s.used.away.Store(true)
			network.Cut()
			time.Sleep(20 * time.Second)
			network.Mute(mute, mute)
			time.Sleep(3 * time.Minute)
			network.Mute(false, false)
			s.used.away.Store(false)
			s.until(reconnect.Live)
		}
		got := s.fetched()
		if len(got) < 10 || s.client.Totals().Probes < 2 {
			t.Errorf("%d tickets, %d probes: too few failures for a test", len(got), s.client.Totals().Probes)
		}
		s.replayed(got[:2])

		// The login is over, and the client finds out.
		s.logins.Store(false)
		s.srv.Disconnect("ada", wire.CloseLoginExpired, "logged out")
		s.until(reconnect.Ended)
		end, ok := errors.AsType[*reconnect.EndError](<-ended)
		if !ok || end.Cause != reconnect.CauseUnauthorized {
			t.Errorf("Run: %v; want the cause %q", end, reconnect.CauseUnauthorized)
		}
		s.kept(end, s.client.History(), s.client.Totals(), s.client.Pending())
		for _, part := range []string{"level=ERROR", "the store is away", "state=waiting", "Hint:network and login are fine"} {
			if !strings.Contains(s.said.String(), part) {
				t.Errorf("%q was not said", part)
			}
		}
	})
}

// The same on real sockets.
func TestAReconnectOnLoopback(t *testing.T) {
	s := newSite(t)
	hs := httptest.NewServer(s.mux)
	s.base, s.http = hs.URL, hs.Client()
	live := make(chan string, 10)
	ended := s.run(live)
	first := <-live
	if n := s.srv.Disconnect("ada", wire.CloseLoginExpired, "again, please"); n != 1 {
		t.Errorf("%d connections", n)
	}
	if second := <-live; second != first {
		t.Errorf("session %q; want the one from before, %q", second, first)
	}
	got := s.fetched()
	if len(got) != 2 {
		t.Errorf("%d tickets; want 2", len(got))
	}
	s.replayed(got)
	s.kept()
	s.srv.Disconnect("ada", wire.CloseNormal, "")
	if end, ok := errors.AsType[*reconnect.EndError](<-ended); !ok || end.Cause != reconnect.CauseFinished {
		t.Errorf("Run: %v", end)
	}
	_ = s.srv.Close()
	hs.Close()
}
