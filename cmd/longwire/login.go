package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/longwire/longwire/server"
)

// The login of the demo asks for no password: whoever names a user is that user.
// The cookie holds the name, query-escaped, and after a bar the end of the
// login in ms since 1970, if it has one. It outlives that end in the browser, so that
// an expired login is refused and does not turn into nobody.
const userCookie = "longwire_user"

const maxUserName = 64 // characters

// serveLogin answers GET with the name that the cookie tells, takes a new name by
// POST and forgets it by DELETE.
func (s *site) serveLogin(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		id, err := s.authenticate(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		writeJSON(w, map[string]string{"user": id.User})
	case http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
		name := r.PostFormValue("name")
		if err := checkUserName(name); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		value := url.QueryEscape(name)
		if s.config.loginLife > 0 {
			value += "|" + strconv.FormatInt(time.Now().Add(s.config.loginLife).UnixMilli(), 10)
		}
		setUserCookie(w, value, 0)
		writeJSON(w, map[string]string{"user": name})
	case http.MethodDelete:
		s.serveLogout(w, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "login wants GET, POST or DELETE", http.StatusMethodNotAllowed)
	}
}

// serveLogout forgets the user.
func (s *site) serveLogout(w http.ResponseWriter, _ *http.Request) {
	setUserCookie(w, "", -1)
	writeJSON(w, map[string]string{"user": ""})
}

func setUserCookie(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: userCookie, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// authenticate names the user of a request; without a cookie it is anonymous.
func (s *site) authenticate(r *http.Request) (server.Identity, error) {
	cookie, err := r.Cookie(userCookie)
	if errors.Is(err, http.ErrNoCookie) || cookie.Value == "" {
		return server.Identity{}, nil
	}
	escaped, end, limited := strings.Cut(cookie.Value, "|")
	name, err := url.QueryUnescape(escaped)
	if err == nil {
		err = checkUserName(name)
	}
	if err != nil {
		return server.Identity{}, fmt.Errorf("%w: cookie %s: %w", server.ErrUnauthorized, userCookie, err)
	}
	id := server.Identity{User: name}
	if limited {
		ms, err := strconv.ParseInt(end, 10, 64)
		if err != nil {
			return server.Identity{}, fmt.Errorf("%w: cookie %s: the end of the login is no time", server.ErrUnauthorized, userCookie)
		}
		if id.Expires = time.UnixMilli(ms); !id.Expires.After(time.Now()) {
			return server.Identity{}, fmt.Errorf("%w: the login has expired", server.ErrUnauthorized)
		}
	}
	return id, nil
}

func checkUserName(name string) error {
	switch {
	case name == "":
		return errors.New("name: missing")
	case !utf8.ValidString(name):
		return errors.New("name: not UTF-8")
	case utf8.RuneCountInString(name) > maxUserName:
		return fmt.Errorf("name: longer than %d characters", maxUserName)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("name: holds a character that cannot be printed")
	case strings.TrimSpace(name) == "":
		return errors.New("name: blank")
	}
	return nil
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// An error means that the peer has gone.
	_ = json.NewEncoder(w).Encode(v)
}
