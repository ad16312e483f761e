package ticket_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/ticket"
)

// whoIs is what a site has to know of its logins.
var whoIs = map[string]string{"s3cr3t": "ada"}

// loggedIn is a site's login by cookie.
func loggedIn(r *http.Request) (server.Identity, error) {
	cookie, err := r.Cookie("login")
	if err != nil || whoIs[cookie.Value] == "" {
		return server.Identity{}, server.ErrUnauthorized
	}
	return server.Identity{User: whoIs[cookie.Value]}, nil
}

// A page whose cookies reach the endpoint needs no ticket.
func Example_cookie() {
	lw, err := server.New(server.Options{Authenticate: loggedIn})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ws", lw)
	mux.Handle("/probe", lw.Probe())
	site := httptest.NewServer(mux)
	defer site.Close()
	defer lw.Close() //nolint:errcheck // is always nil

	fmt.Println(dial(site, site.URL+"/ws", "login=s3cr3t"))
	fmt.Println(dial(site, site.URL+"/ws", ""))
	// Output:
	// 101 Switching Protocols
	// 401 Unauthorized
}

// A dial by ticket: with a fresh one for each.
func Example() {
	tickets, err := ticket.New(ticket.Options{Login: loggedIn})
	if err != nil {
		panic(err)
	}
	lw, err := server.New(server.Options{Authenticate: tickets.Authenticate})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ticket", tickets.Handler())
	mux.Handle("/ws", lw)
	mux.Handle("/probe", lw.Probe()) // answered by loggedIn
	site := httptest.NewServer(mux)
	defer site.Close()
	defer lw.Close() //nolint:errcheck // is always nil

	// What a page does in its url function, and a program in reconnect.Options.URL.
	fetch := func(ctx context.Context) (url string, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, site.URL+"/ticket", http.NoBody)
		if err != nil {
			return "", err
		}
		req.AddCookie(&http.Cookie{Name: "login", Value: "s3cr3t"})
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close() //nolint:errcheck // nothing was written
		switch resp.StatusCode {
		case http.StatusUnauthorized:
			return site.URL + "/ws", nil // is refused; the probe then says why
		case http.StatusOK:
		default:
			return "", errors.New("no ticket: " + resp.Status)
		}
		var answer struct{ Ticket string }
		err = json.NewDecoder(resp.Body).Decode(&answer)
		return site.URL + "/ws?ticket=" + answer.Ticket, err
	}
	url, err := fetch(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(dial(site, url, ""))
	fmt.Println(dial(site, url, "")) // the same one again
	// Output:
	// 101 Switching Protocols
	// 401 Unauthorized
}

// A token as a subprotocol appears in no URL. The server must pick one of those that
// are offered, and does not pick the token. The probe brings no subprotocol: mount
// none, or let Authenticate take a cookie as well.
func Example_subprotocol() {
	const prefix = "site.token."
	lw, err := server.New(server.Options{
		Subprotocols: []string{"site.v1"},
		Authenticate: func(r *http.Request) (server.Identity, error) {
			for _, offers := range r.Header.Values("Sec-WebSocket-Protocol") {
				for offer := range strings.SplitSeq(offers, ",") {
					token, ok := strings.CutPrefix(strings.TrimSpace(offer), prefix)
					if ok && whoIs[token] != "" {
						return server.Identity{User: whoIs[token]}, nil
					}
				}
			}
			return server.Identity{}, server.ErrUnauthorized
		},
	})
	if err != nil {
		panic(err)
	}
	site := httptest.NewServer(lw)
	defer site.Close()
	defer lw.Close() //nolint:errcheck // is always nil

	// In a browser: new WebSocket(url, ['site.v1', 'site.token.' + token])
	fmt.Println(dial(site, site.URL, "", "site.v1", prefix+"s3cr3t"))
	fmt.Println(dial(site, site.URL, "", "site.v1", prefix+"guess"))
	// Output:
	// 101 Switching Protocols site.v1
	// 401 Unauthorized
}

// dial returns what a browser's dial from the same site is answered with, and the
// subprotocol that was picked.
func dial(site *httptest.Server, url, cookie string, subprotocols ...string) string {
	ws, resp, err := websocket.Dial(context.Background(), url, &websocket.DialOptions{
		HTTPHeader:   http.Header{"Origin": {site.URL}, "Cookie": {cookie}},
		Subprotocols: subprotocols,
	})
	if resp == nil {
		return err.Error()
	}
	if err != nil {
		return resp.Status
	}
	defer ws.CloseNow() //nolint:errcheck // nothing is lost
	return strings.TrimSpace(resp.Status + " " + ws.Subprotocol())
}
