package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestMain is main for the processes that are started from this program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		main()
		return
	}
	os.Exit(m.Run())
}

// Each library gets its events into a page. The other parts take minutes.
func TestEveryLibraryIsMeasured(t *testing.T) {
	const chromium = "../../bin/headless-shell"
	for _, needed := range []string{chromium, "node_modules/centrifuge"} {
		if _, err := os.Stat(needed); err != nil {
			t.Skipf("%s is missing: `make test-e2e` installs it", needed)
		}
	}
	var out, progress bytes.Buffer
	args := []string{"-chromium", chromium, "-parts", "rates", "-rounds", "1", "-window", "500ms"}
	if err := run(t.Context(), &out, &progress, args); err != nil {
		t.Fatalf("%v\n%s", err, progress.Bytes())
	}
	for _, figure := range []string{perSecond, "latency of all rounds, p99, ms"} {
		_, rows, _ := strings.Cut(out.String(), "\n"+figure)
		if end := regexp.MustCompile(`\n\S|\n\n`).FindStringIndex(rows); end != nil {
			rows = rows[:end[0]]
		}
		for _, w := range ways {
			if !strings.Contains(rows, " "+w.name+" ") {
				t.Errorf("no %s of %s in\n%s", figure, w.name, out.Bytes())
			}
		}
	}
}
