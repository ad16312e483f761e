package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	shownBy  = regexp.MustCompile("`([a-z/]+): ([^`]+)`")
	goTest   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	specTest = regexp.MustCompile(`(?m)^\s*test\(\s*(['"` + "`" + `])(.*?)['"` + "`" + `],`)
	variable = regexp.MustCompile(`\\\$\\\{.*?\\\}`) // quoted: of a title that several tests share
)

// FAULTS.md names a test for each fault. Each name is one.
func TestFaultsAreShownByTestsThatExist(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/FAULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]*regexp.Regexp) // by package, or spec
	names := 0
	for _, row := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(row, "|") {
			continue
		}
		for _, m := range shownBy.FindAllStringSubmatch(row, -1) {
			where, name := m[1], m[2]
			if tests[where] == nil {
				tests[where] = testsIn(t, where)
			}
			if names++; !tests[where].MatchString(name) {
				t.Errorf("docs/FAULTS.md: %s has no test %q", where, name)
			}
		}
	}
	if names == 0 {
		t.Error("docs/FAULTS.md names no tests")
	}
}

// testsIn returns what matches the names of the tests of a package, or the titles of
// all specs.
func testsIn(t *testing.T, where string) *regexp.Regexp {
	t.Helper()
	glob, pattern, group := filepath.Join(root, where, "*_test.go"), goTest, 1
	if where == "spec" {
		glob, pattern, group = root+"/playwright/*.spec.js", specTest, 2
	}
	files, err := filepath.Glob(glob)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pattern.FindAllSubmatch(text, -1) {
			names = append(names, variable.ReplaceAllString(regexp.QuoteMeta(string(m[group])), ".*"))
		}
	}
	return regexp.MustCompile("^(?:" + strings.Join(names, "|") + ")$")
}
