//go:build linux

package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain is main for the processes that a part starts from this program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestEveryPartRuns makes each part measure little. What it brings is not looked at:
// visits check what servers answer, and receipts that every event came.
func TestEveryPartRuns(t *testing.T) {
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			small := slices.Clone(dimensions)
			for i := range small {
				small[i].sizes, small[i].followers, small[i].missed = []int{4, 40}, 3, []int{4}
			}
			var out strings.Builder
			err := run(t.Context(), &out, io.Discard, options{
				parts: []string{p.name}, rounds: 1, idle: 5, fanOut: []int{3}, flood: 50 * time.Millisecond, handshakes: 5, resumes: 5, growth: small,
			})
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(out.String(), "\n")
			if n := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "min-max") }); n != 1 || len(lines) < 6 {
				t.Errorf("no table:\n%s", out.String())
			}
		})
	}
}

func TestChildNamesWhatItDoesNotKnow(t *testing.T) {
	if err := runHost([]string{"nats", "{}"}); err == nil || !strings.Contains(err.Error(), `"nats"`) {
		t.Errorf("runHost returned %v, want an error that names the server", err)
	}
}
