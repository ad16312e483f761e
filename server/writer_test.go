package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/longwire/longwire/wire"
)

// A turn ends with about a batch. As long as it says that there is more another one
// follows, and in the end everything was written.
func TestATurnSaysWhetherThereIsMore(t *testing.T) {
	half := `"` + strings.Repeat("x", wire.BatchBytes/2) + `"`
	for name, c := range map[string]struct {
		prepare func(t *testing.T, c *conn)
		turns   int
		bye     bool
	}{
		"nothing":         {func(*testing.T, *conn) {}, 1, false},
		"one answer":      {func(_ *testing.T, c *conn) { c.answer(wire.Ack{ID: "1"}) }, 1, false},
		"several batches": {func(_ *testing.T, c *conn) { answer(c, half, 5) }, 3, false},
		"events":          {func(t *testing.T, c *conn) { events(t, c, half, 5) }, 5, false}, // one each, with what is around it
		"both":            {func(t *testing.T, c *conn) { answer(c, half, 1); events(t, c, half, 1) }, 1, false},
		"before a close": {func(_ *testing.T, c *conn) {
			answer(c, half, 5)
			c.bye = &closing{code: wire.CloseRestart}
		}, 4, true}, // the last says how
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close() //nolint:errcheck // test
			conn := newConn(s, Identity{})
			conn.batch = true
			conn.follows = []*follow{{conn: conn, topic: topicOf("s")}}
			conn.ask(conn.follows[0], wire.Want{Has: true, Epoch: "e"}, nil)
			c.prepare(t, conn)
			turns, more := 0, true
			var bye *closing
			for ; more; turns++ {
				o := new(output)
				bye = conn.fill(o)
				if more = o.more && !o.isEmpty(); !more && turns > 0 && o.isEmpty() && !c.bye {
					t.Error("there was said to be more")
				}
				o.finish()
			}
			after, head := conn.follows[0].cursor.After(), conn.follows[0].topic.log().Head()
			if turns != c.turns || (bye != nil) != c.bye || len(conn.control) > 0 || after != head {
				t.Errorf("%d turns, want %d; closing %v; %d answers left, at event %d of %d",
					turns, c.turns, bye, len(conn.control), after, head)
			}
		})
	}
}

func answer(c *conn, result string, n int) {
	for i := range n {
		c.answer(wire.Ack{ID: fmt.Sprint(i), Result: wire.Raw(result)})
	}
}

func events(t *testing.T, c *conn, data string, n int) {
	t.Helper()
	for range n {
		if _, err := c.follows[0].topic.log().Append([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
}
