package server

import (
	"net/http"
	"time"
)

// Probe returns a handler that answers what an upgrade would be answered, in a
// form that a browser's script can see: 204 with "Longwire-Probe: 1", or 401, 403,
// 503. It is for GET; mount it beside the endpoint, where the same cookies arrive.
func (s *Server) Probe() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin") // a browser sends none to the page's own host
		if origin != "" && s.allowsOrigin(r) {
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Credentials", "true")
			h.Set("Access-Control-Expose-Headers", "Longwire-Probe, Retry-After")
		}
		w.Header().Add("Vary", "Origin")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		d, retry := s.refuses()
		if d == notDenied && origin != "" && !s.allowsOrigin(r) {
			d = deniedOrigin
		}
		if d == notDenied {
			d, retry = s.probe(r)
		}
		if d != notDenied {
			reject(w, d, retry)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Longwire-Probe", "1")
		w.WriteHeader(http.StatusNoContent)
	})
}

// probe says how an upgrade would be denied, and when to come back.
func (s *Server) probe(r *http.Request) (denial, time.Duration) {
	address, d := s.addressOf(r)
	if d != notDenied {
		return d, appRetry
	}
	full, back := s.admission.look(address)
	if full != notDenied {
		return full, back.after()
	}
	_, d = s.authenticate(r)
	return d, appRetry
}
