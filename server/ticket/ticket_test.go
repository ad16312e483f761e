package ticket_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/ticket"
)

var (
	key      = []byte("0123456789abcdef0123456789abcdef")
	otherKey = []byte("fedcba9876543210fedcba9876543210")
	ada      = server.Identity{User: "ada"}
)

// byCookie is a login as a site has one.
func byCookie(r *http.Request) (server.Identity, error) {
	c, err := r.Cookie("user")
	if err != nil {
		return server.Identity{}, server.ErrUnauthorized
	}
	return server.Identity{User: c.Value}, nil
}

func newAuthority(tb testing.TB, o ticket.Options) *ticket.Authority {
	tb.Helper()
	if o.Login == nil {
		o.Login = byCookie
	}
	o.Logger = slog.New(slog.DiscardHandler)
	a, err := ticket.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func issue(tb testing.TB, a *ticket.Authority, id server.Identity) string {
	tb.Helper()
	text, err := a.Issue(id)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// upgrade is the dial of a browser.
func upgrade(target string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, target, http.NoBody)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	return r
}

func withTicket(text string) *http.Request {
	r := upgrade("/ws")
	r.URL.RawQuery = "ticket=" + text
	return r
}

// wantRefused checks an error for what it says, and for what it must not say.
func wantRefused(tb testing.TB, what string, err error, reason, text string) {
	tb.Helper()
	if !errors.Is(err, server.ErrUnauthorized) || !strings.Contains(err.Error(), reason) {
		tb.Errorf("%s: got %v; want ErrUnauthorized that says %q", what, err, reason)
	}
	const piece = 6
	for i := 0; err != nil && i+piece <= min(len(text), 4096); i++ {
		if strings.Contains(err.Error(), text[i:i+piece]) {
			tb.Errorf("%s: %q repeats %q of the ticket", what, err, text[i:i+piece])
		}
	}
}

func TestATicketIsGoodOnce(t *testing.T) {
	id := server.Identity{User: "ada \u2028<&>", Expires: time.Now().Add(time.Hour).Truncate(time.Millisecond)}
	a := newAuthority(t, ticket.Options{})
	for name, dial := range map[string]func(text string) *http.Request{
		"in the URL": withTicket,
		"as a subprotocol": func(text string) *http.Request {
			r := upgrade("/ws")
			r.Header.Add("Sec-WebSocket-Protocol", "a, b")
			r.Header.Add("Sec-WebSocket-Protocol", "c , longwire.ticket."+text+",d")
			return r
		},
	} {
		text := issue(t, a, id)
		got, err := a.Authenticate(dial(text))
		if err != nil || got.User != id.User || !got.Expires.Equal(id.Expires) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, id)
		}
		for range 3 {
			_, err = a.Authenticate(dial(text))
			wantRefused(t, "again", err, "used before", text)
		}
	}
}

func TestOneTicketAndAHundredDialsAtOnce(t *testing.T) {
	a := newAuthority(t, ticket.Options{})
	text := issue(t, a, ada)
	var good, refused atomic.Int32
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for range 100 {
		wg.Go(func() {
			<-begin
			switch _, err := a.Authenticate(withTicket(text)); {
			case err == nil:
				good.Add(1)
			case errors.Is(err, server.ErrUnauthorized):
				refused.Add(1)
			}
		})
	}
	close(begin)
	wg.Wait()
	if good.Load() != 1 || refused.Load() != 99 {
		t.Errorf("%d good, %d refused; want 1 and 99", good.Load(), refused.Load())
	}
}

func TestATicketLivesAsLongAsItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t, ticket.Options{Life: 2 * time.Second})
		early, late := issue(t, a, ada), issue(t, a, ada)
		time.Sleep(2*time.Second - time.Millisecond)
		if _, err := a.Authenticate(withTicket(early)); err != nil {
			t.Errorf("just before the end: %v", err)
		}
		time.Sleep(time.Millisecond)
		_, err := a.Authenticate(withTicket(late))
		wantRefused(t, "at the end", err, "expired", late)
	})
}

// Whatever the fraction of the second, a ticket issued right after the start is
// good, and one from right before it is not.
func TestTicketsAroundTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := ticket.Options{Keys: [][]byte{key}}
		before := newAuthority(t, o)
		for range 2000 {
			old := issue(t, before, ada)
			time.Sleep(time.Millisecond)
			a := newAuthority(t, o)
			if _, err := a.Authenticate(withTicket(issue(t, a, ada))); err != nil {
				t.Fatalf("started at %v: %v", time.Now(), err)
			}
			_, err := a.Authenticate(withTicket(old))
			wantRefused(t, "an old one", err, "before the start", old)
			time.Sleep(333_333 * time.Nanosecond)
		}
	})
}

func TestWithoutKeysTicketsAreGoodInTheirProcessOnly(t *testing.T) {
	a, b := newAuthority(t, ticket.Options{}), newAuthority(t, ticket.Options{})
	text := issue(t, a, ada)
	_, err := b.Authenticate(withTicket(text))
	wantRefused(t, "another key", err, "signature", text)
}

func TestKeysAreRotated(t *testing.T) {
	used := &shared{}
	with := func(keys ...[]byte) *ticket.Authority {
		return newAuthority(t, ticket.Options{Keys: keys, Used: used})
	}
	steps := []*ticket.Authority{with(key), with(key, otherKey), with(otherKey, key), with(otherKey)}
	for i := range len(steps) - 1 {
		for _, pair := range [][2]*ticket.Authority{{steps[i], steps[i+1]}, {steps[i+1], steps[i]}} {
			if _, err := pair[1].Authenticate(withTicket(issue(t, pair[0], ada))); err != nil {
				t.Errorf("between steps %d and %d: %v", i, i+1, err)
			}
		}
	}
	text := issue(t, steps[0], ada)
	_, err := steps[3].Authenticate(withTicket(text))
	wantRefused(t, "another key", err, "signature", text)
}

// shared is a store that several nodes share; it can be away.
type shared struct {
	ids  sync.Map
	away atomic.Bool
}

var errAway = errors.New("the store is away")

func (s *shared) Use(ctx context.Context, id string, until time.Time) (bool, error) {
	if s.away.Load() {
		return false, errAway
	}
	if left := time.Until(until); left <= 0 || left > 5*time.Minute+10*time.Second || len(id) > 64 {
		return false, errors.New("out of bounds")
	}
	_, used := s.ids.LoadOrStore(id, nil)
	return !used, ctx.Err()
}

func TestNodesShareWhatWasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := &shared{}
		o := ticket.Options{Keys: [][]byte{key}, Used: used, Life: ticket.MaxLife}
		a := newAuthority(t, o)
		text := issue(t, a, ada)
		time.Sleep(time.Minute)
		b := newAuthority(t, o) // started later
		used.away.Store(true)
		if _, err := b.Authenticate(withTicket(text)); !errors.Is(err, errAway) || errors.Is(err, server.ErrUnauthorized) {
			t.Errorf("the store is away: got %v", err)
		}
		used.away.Store(false)
		if id, err := b.Authenticate(withTicket(text)); err != nil || id != ada {
			t.Errorf("got %v, %v", id, err)
		}
		_, err := a.Authenticate(withTicket(text))
		wantRefused(t, "again", err, "used before", text)

		// A node whose clock is 5 s ahead, or behind.
		now := time.Now().Unix()
		for _, off := range []int64{-5, 5} {
			ahead := sign(t, jwt.SigningMethodHS256, key, claims(jwt.MapClaims{"iat": now + off, "exp": now + off + 300}))
			if _, err := a.Authenticate(withTicket(ahead)); err != nil {
				t.Errorf("a clock off by %d s: %v", off, err)
			}
		}
	})
}

func TestUsedTicketsAreRememberedToTheirEndInBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t, ticket.Options{Limit: 3})
		for range 5 {
			var texts []string
			for range 3 {
				texts = append(texts, issue(t, a, ada))
				if _, err := a.Authenticate(withTicket(texts[len(texts)-1])); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			if _, err := a.Authenticate(withTicket(issue(t, a, ada))); err == nil || errors.Is(err, server.ErrUnauthorized) {
				t.Errorf("full: got %v; want an error that is no refusal", err)
			}
			for _, text := range texts {
				_, err := a.Authenticate(withTicket(text))
				wantRefused(t, "again", err, "used before", text)
			}
			time.Sleep(31 * time.Second)
		}
	})
}

// Anything that is no upgrade asks for the login and leaves the ticket alone.
func TestOnlyAnUpgradeUsesATicket(t *testing.T) {
	a := newAuthority(t, ticket.Options{})
	text := issue(t, a, ada)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ws?ticket="+text, http.NoBody)
	id, err := a.Authenticate(r)
	if id != (server.Identity{}) {
		t.Errorf("no upgrade: got %v", id)
	}
	wantRefused(t, "no upgrade", err, "unauthorized", text)
	r.AddCookie(&http.Cookie{Name: "user", Value: "bob"})
	if id, err = a.Authenticate(r); err != nil || id.User != "bob" {
		t.Errorf("the probe: got %v, %v; want bob", id, err)
	}
	r = upgrade("/ws?ticket=" + text)
	r.Header.Set("Upgrade", "h2c, WebSocket")
	if id, err = a.Authenticate(r); err != nil || id != ada {
		t.Errorf("the dial: got %v, %v; want ada", id, err)
	}
	r = upgrade("/ws")
	r.AddCookie(&http.Cookie{Name: "user", Value: "bob"})
	_, err = a.Authenticate(r)
	wantRefused(t, "no ticket", err, "none", "")
}

func TestIssueRefusesWhatTheServerWould(t *testing.T) {
	a := newAuthority(t, ticket.Options{})
	_, err := a.Issue(server.Identity{User: "ada", Expires: time.Now()})
	wantRefused(t, "a login that is over", err, "ended", "")
	for _, user := range []string{strings.Repeat("x", 257), "\xff"} {
		if _, err = a.Issue(server.Identity{User: user}); err == nil {
			t.Errorf("a ticket for %.10q", user)
		}
	}
	longest := server.Identity{User: strings.Repeat("\x00", 256), Expires: time.Unix(1<<60, 0)}
	id, err := a.Authenticate(withTicket(issue(t, a, longest)))
	if err != nil || id.User != longest.User || id.Expires.Year() < 30_000 {
		t.Errorf("got %+v, %v", id, err)
	}
}

func TestOptionsAreNamedWhenBad(t *testing.T) {
	_, err := ticket.New(ticket.Options{
		Keys: [][]byte{key, []byte("s3cr3t")}, Life: time.Millisecond, Limit: -1, Audience: strings.Repeat("a", 257),
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"Options.Login: missing", "Keys[1]: 6 bytes", "Life: 1ms", "Limit: -1", "Audience"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in:\n%v", part, err)
		}
	}
	if strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("the key is repeated:\n%v", err)
	}
	if _, err := ticket.New(ticket.Options{Login: byCookie, Life: ticket.MaxLife + 1}); err == nil {
		t.Error("Life above MaxLife")
	}
}
