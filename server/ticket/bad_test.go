package ticket_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/ticket"
)

// claims are those of a good ticket, with changes: nil removes.
func claims(changes jwt.MapClaims) jwt.MapClaims {
	now := time.Now().Unix()
	c := jwt.MapClaims{"jti": rand.Text(), "sub": "ada", "aud": "longwire-ticket", "iat": now, "exp": now + 30}
	for name, value := range changes {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

func sign(tb testing.TB, method jwt.SigningMethod, key any, c jwt.Claims) string {
	tb.Helper()
	text, err := jwt.NewWithClaims(method, c).SignedString(key)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func TestBadTickets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time stands still
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		hs256 := func(changes jwt.MapClaims) string {
			return sign(t, jwt.SigningMethodHS256, key, claims(changes))
		}
		now := float64(time.Now().Unix())
		good := hs256(nil)
		head, rest, _ := strings.Cut(good, ".")
		body, mac, _ := strings.Cut(rest, ".")
		for name, test := range map[string]struct{ text, reason string }{
			"good, to see that the others could be": {good, ""},
			"none":                                  {"", "none"},
			"alg none":                              {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(nil)), "signature"},
			"alg none, and a mac":                   {"eyJhbGciOiJub25lIn0." + body + "." + mac, "signature"},
			"alg unknown":                           {"eyJhbGciOiJYIn0." + body + "." + mac, "malformed"},
			"no alg":                                {"e30." + body + "." + mac, "malformed"},
			"other alg, same key":                   {sign(t, jwt.SigningMethodHS512, key, claims(nil)), "signature"},
			"other kind of alg":                     {sign(t, jwt.SigningMethodEdDSA, private, claims(nil)), "signature"},
			"other key":                             {sign(t, jwt.SigningMethodHS256, otherKey, claims(nil)), "signature"},
			"no signature":                          {head + "." + body + ".", "signature"},
			"other claims":                          {head + "." + strings.Split(hs256(nil), ".")[1] + "." + mac, "signature"},
			"expired":                               {hs256(jwt.MapClaims{"iat": now - 40, "exp": now - 6}), "expired"},
			"expired just now":                      {hs256(jwt.MapClaims{"iat": now, "exp": now}), "expired"},
			"from the future":                       {hs256(jwt.MapClaims{"iat": now + 6, "exp": now + 30}), "before issued"},
			"just from the future": {
				hs256(jwt.MapClaims{"iat": now + 0.001, "exp": now + 30}), "before issued",
			},
			"from before the start": {hs256(jwt.MapClaims{"iat": now - 0.001, "exp": now + 30}), "before the start"},
			"not valid yet":         {hs256(jwt.MapClaims{"nbf": now + 6}), "not valid yet"},
			"no jti":                {hs256(jwt.MapClaims{"jti": nil}), "id"},
			"long jti":              {hs256(jwt.MapClaims{"jti": strings.Repeat("x", 65)}), "id"},
			"jti a number":          {hs256(jwt.MapClaims{"jti": 7}), "malformed"},
			"no iat":                {hs256(jwt.MapClaims{"iat": nil}), "missing"},
			"no exp":                {hs256(jwt.MapClaims{"exp": nil}), "missing"},
			"iat a text":            {hs256(jwt.MapClaims{"iat": "yesterday"}), "malformed"},
			"exp huge":              {hs256(jwt.MapClaims{"exp": 1e300}), "malformed"},
			"exp negative":          {hs256(jwt.MapClaims{"exp": -1}), "malformed"},
			"lives too long":        {hs256(jwt.MapClaims{"exp": now + 301}), "too long"},
			"no audience":           {hs256(jwt.MapClaims{"aud": nil}), "missing"},
			"other audience":        {hs256(jwt.MapClaims{"aud": []string{"a", "b"}}), "audience"},
			"garbage":               {"s3cr3tgarbage", "malformed"},
			"dots":                  {"....", "malformed"},
			"two dots":              {"..", "malformed"},
			"no base64":             {"!!!!!!!!.!!!!!!!!.!!!!!!!!", "malformed"},
			"no JSON":               {"AAAAAAAA.AAAAAAAA.AAAAAAAA", "malformed"},
			"null":                  {"bnVsbA.bnVsbA.bnVsbA", "malformed"},
			"1 MB":                  {strings.Repeat("A", 1<<20), "too long"},
			"1 MB of claims":        {hs256(jwt.MapClaims{"x": strings.Repeat("A", 1<<20)}), "too long"},
		} {
			a := newAuthority(t, ticket.Options{Keys: [][]byte{key}})
			id, err := a.Authenticate(withTicket(test.text))
			if test.reason == "" {
				if err != nil || id != ada {
					t.Errorf("%s: got %v, %v", name, id, err)
				}
				continue
			}
			if id != (server.Identity{}) {
				t.Errorf("%s: got %v", name, id)
			}
			wantRefused(t, name, err, test.reason, test.text)
		}
	})
}

// FuzzAuthenticate reads any text, and any claims under a good signature.
func FuzzAuthenticate(f *testing.F) {
	f.Add("a.b.c", "{}")
	f.Add("..", "null")
	f.Add(sign(f, jwt.SigningMethodHS256, key, claims(nil)), `{"jti":"1","iat":1e9,"exp":1e9,"aud":["longwire-ticket"]}`)
	f.Fuzz(func(t *testing.T, text, body string) {
		signed := &jwt.Token{}
		unsigned := signed.EncodeSegment([]byte(`{"alg":"HS256"}`)) + "." + signed.EncodeSegment([]byte(body))
		mac, err := jwt.SigningMethodHS256.Sign(unsigned, key)
		if err != nil {
			t.Fatal(err)
		}
		a := newAuthority(t, ticket.Options{Keys: [][]byte{key}})
		for _, text := range []string{text, unsigned + "." + signed.EncodeSegment(mac)} {
			r := upgrade("/ws")
			r.Header.Set("Sec-WebSocket-Protocol", ticket.SubprotocolPrefix+text)
			id, err := a.Authenticate(r)
			if err != nil && (!errors.Is(err, server.ErrUnauthorized) || id != (server.Identity{})) {
				t.Errorf("got %v, %v", id, err)
			}
			if _, err = a.Authenticate(r); err == nil {
				t.Error("good twice")
			}
		}
	})
}
