package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A Target is the server that the verbs act on.
type Target interface {
	Publish(ctx context.Context, stream string, data []byte) (uint64, error)
	PublishTo(ctx context.Context, user string, data []byte) (int, error)
}

// A Host owns the process part that a restart replaces.
type Host interface {
	// Target returns the server of the moment, nil while it is down.
	Target() Target
	// Restart closes the listener, calls kill, forgets the server, and returns;
	// after down it starts anew on the same address. It fails when a restart is
	// going on already.
	Restart(down time.Duration, kill func()) error
	// Forgets reports whether what the server knew is lost by a restart.
	Forgets() bool
}

// Handler serves the verbs under the path /faults/: a GET of that path lists
// them. They take query parameters and answer JSON; an error is an object with
// the field error.
//
// Refused with 403 are peers and Host headers that are not loopback, requests
// that came through a proxy, and those that a browser says come from another
// origin: a page out there must not be able to stop a server on this machine.
func (c *Control) Handler(host Host) http.Handler {
	h := &handler{control: c, host: host}
	mux := http.NewServeMux()
	mux.HandleFunc("/faults/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/faults/" {
			reply(w, http.StatusNotFound, answer{"error": fmt.Sprintf("no verb %q; GET /faults/ lists them", strings.TrimPrefix(r.URL.Path, "/faults/"))})
			return
		}
		list := make([]answer, len(verbs))
		for i, v := range verbs {
			list[i] = answer{"verb": v.name, "method": v.method, "params": v.params, "does": v.does}
		}
		reply(w, http.StatusOK, list)
	})
	for _, v := range verbs {
		mux.HandleFunc("/faults/"+v.name, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, v) })
	}
	return h.guard(mux)
}

type handler struct {
	control *Control
	host    Host
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request, v verb) {
	if r.Method != v.method {
		w.Header().Set("Allow", v.method)
		reply(w, http.StatusMethodNotAllowed, answer{"error": v.name + " wants " + v.method})
		return
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		reply(w, http.StatusBadRequest, answer{"error": "query: " + err.Error()})
		return
	}
	// After a restart this connection would still lead to the server that is gone.
	w.Header().Set("Connection", "close")
	p := &params{values: values}
	result, err := v.do(h, r, p)
	switch {
	case err == nil:
		if v.method == http.MethodPost {
			h.control.log.Info("fault", "verb", v.name, "query", r.URL.RawQuery)
		}
		reply(w, http.StatusOK, result)
	case p.err != nil || errors.As(err, new(badRequestError)):
		reply(w, http.StatusBadRequest, answer{"error": v.name + ": " + err.Error()})
	default:
		reply(w, http.StatusConflict, answer{"error": v.name + ": " + err.Error()})
	}
}

var errDown = errors.New("the server is down")

func (h *handler) target() (Target, error) {
	if target := h.host.Target(); target != nil {
		return target, nil
	}
	return nil, errDown
}

// guard lets through only who is on this machine and not led by a foreign page.
func (h *handler) guard(next http.Handler) http.Handler {
	var origin http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		var why string
		switch {
		case !loopback(r.RemoteAddr):
			why = "only for peers on this machine"
		case !loopback(r.Host):
			why = fmt.Sprintf("only for a loopback address, not for the host %q", r.Host)
		case r.Header.Get("Forwarded") != "" || r.Header.Get("X-Forwarded-For") != "":
			why = "not through a proxy"
		case site != "" && site != "same-origin" && site != "none", origin.Check(r) != nil:
			why = "not from a page of another origin"
		default:
			next.ServeHTTP(w, r)
			return
		}
		reply(w, http.StatusForbidden, answer{"error": "faults: " + why})
	})
}

// loopback reports whether a host, with or without a port, is this machine.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// An error means that the peer has gone.
	_ = json.NewEncoder(w).Encode(v)
}
