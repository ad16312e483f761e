package ticket

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/longwire/longwire/server"
)

// Handler returns a handler that issues a ticket to whom Options.Login names. It is
// for POST, and answers {"ticket": "…", "expiresIn": milliseconds}, never cached;
// 401 and 403 by what Login returned, or 503 for any other error, which is logged.
//
// It refuses a browser's request from another origin with 403, as
// http.CrossOriginProtection does. Where pages are served from elsewhere, write a
// handler that allows them, and call Issue in it.
func (a *Authority) Handler() http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(a.serveTicket))
}

func (a *Authority) serveTicket(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodPost {
		h.Set("Allow", http.MethodPost)
		reject(w, http.StatusMethodNotAllowed)
		return
	}
	id, err := a.o.Login(r)
	var text string
	if err == nil {
		text, err = a.Issue(id)
	}
	switch {
	case errors.Is(err, server.ErrUnauthorized):
		reject(w, http.StatusUnauthorized)
	case errors.Is(err, server.ErrForbidden):
		reject(w, http.StatusForbidden)
	case err != nil:
		a.o.Logger.Error("longwire: no ticket was issued", "error", err)
		h.Set("Retry-After", "5")
		reject(w, http.StatusServiceUnavailable)
	default:
		h.Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(struct { // the client may be gone
			Ticket    string `json:"ticket"`
			ExpiresIn int64  `json:"expiresIn"`
		}{text, a.o.Life.Milliseconds()})
	}
}

func reject(w http.ResponseWriter, status int) {
	http.Error(w, http.StatusText(status), status)
}
