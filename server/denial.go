package server

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// denial is why a handshake came to nothing. Each is counted by itself; together
// with the welcomes they add up to the handshakes.
type denial int

const (
	notDenied denial = iota
	deniedClosed
	deniedDraining
	deniedOrigin
	deniedRate
	deniedConnections
	deniedAddress
	deniedUnauthorized
	deniedForbidden
	deniedFailed // a function of the application's
	deniedBadUpgrade
	deniedUser
	deniedWelcomes
	deniedSilent
	deniedBadHello
	deniedOtherUser
	deniedNotNewest
	deniedStore
	deniedGone

	denials // how many there are
)

// String is the label of the metric.
func (d denial) String() string {
	return [denials]string{
		"", "closed", "draining", "origin", "rate", "connections", "address", "unauthorized", "forbidden",
		"failed", "bad_upgrade", "user_connections", "welcomes", "no_hello", "bad_hello",
		"other_user", "not_newest", "store", "gone",
	}[d]
}

// status is what an upgrade is answered that is refused in plain HTTP.
func (d denial) status() int {
	if d == deniedOrigin || d == deniedForbidden {
		return http.StatusForbidden
	}
	if d == deniedUnauthorized {
		return http.StatusUnauthorized
	}
	return http.StatusServiceUnavailable
}

// reject answers in plain HTTP. retry is when to come back, for a 503.
func reject(w http.ResponseWriter, d denial, retry time.Duration) {
	status := d.status()
	w.Header().Set("Cache-Control", "no-store")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(max(retry, time.Second).Seconds()))))
	}
	text := http.StatusText(status)
	if d == deniedDraining {
		text = "draining"
	}
	http.Error(w, text, status)
}
