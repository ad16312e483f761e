package ticket

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// claims are what a ticket says. Its times stand in for those of RegisteredClaims,
// which the library cuts to seconds.
type claims struct {
	jwt.RegisteredClaims

	IssuedAt  date `json:"iat,omitzero"`
	ExpiresAt date `json:"exp,omitzero"`
	LoginEnds date `json:"login_exp,omitzero"`
}

var (
	errLife = errors.New("it lives too long")
	errID   = errors.New("its id has not 1 to 64 bytes")
)

// maxID bounds what is remembered of one ticket.
const maxID = 64

// Validate is called by the parser, after its own checks.
func (c *claims) Validate() error {
	switch {
	case c.ID == "" || len(c.ID) > maxID:
		return errID
	case c.IssuedAt.IsZero():
		return jwt.ErrTokenRequiredClaimMissing
	case c.ExpiresAt.Sub(c.IssuedAt.Time) > MaxLife:
		return errLife
	}
	return nil
}

// GetExpirationTime is for the parser.
func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return c.ExpiresAt.numeric(), nil }

// GetIssuedAt is for the parser.
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error) { return c.IssuedAt.numeric(), nil }

// date is a NumericDate (RFC 7519 section 2): seconds, here with a fraction.
type date struct{ time.Time }

const (
	precision = time.Millisecond
	maxDate   = 1 << 40 // seconds: in some 35,000 years
)

var errDate = errors.New("ticket: not a time")

func (d date) numeric() *jwt.NumericDate {
	if d.IsZero() {
		return nil
	}
	return &jwt.NumericDate{Time: d.Time}
}

// MarshalJSON rounds down.
func (d date) MarshalJSON() ([]byte, error) {
	d.Time = d.Truncate(precision)
	seconds := float64(min(d.Unix(), maxDate-1)) + float64(d.Nanosecond())/1e9
	return strconv.AppendFloat(nil, seconds, 'f', 3, 64), nil
}

// UnmarshalJSON takes any number of seconds that is a time.
func (d *date) UnmarshalJSON(text []byte) error {
	seconds, err := strconv.ParseFloat(string(text), 64)
	if err != nil || seconds < 0 || seconds > maxDate {
		return errDate
	}
	d.Time = time.UnixMilli(int64(math.Round(seconds * 1e3)))
	return nil
}
