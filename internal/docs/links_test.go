package docs_test

import (
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestLinksLeadSomewhere(t *testing.T) {
	docs := documents(t)
	byName := make(map[string]document)
	for _, d := range docs {
		byName[d.name] = d
	}
	for _, d := range docs {
		for _, l := range d.links {
			if problem := follow(d, l.target, byName); problem != "" {
				t.Errorf("%s:%d: link %s: %s", d.name, l.line, l.target, problem)
			}
		}
	}
}

// follow says what is wrong with a link, or nothing. Other sites are not asked.
func follow(from document, target string, docs map[string]document) (problem string) {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return "is not a URL"
	case u.Scheme == "https":
		return ""
	case u.Scheme != "" || strings.HasPrefix(u.Path, "/"):
		return "is neither https nor relative"
	}
	name := from.name
	if u.Path != "" {
		name = path.Join(path.Dir(from.name), u.Path)
		if _, err := os.Stat(path.Join(root, name)); err != nil {
			return "there is no such file"
		}
	}
	if u.Fragment == "" {
		return ""
	}
	if d, ok := docs[name]; !ok || !d.anchors[u.Fragment] {
		return "there is no such heading in " + name
	}
	return ""
}

// Whoever looks for a document finds it from the first page, and none is forgotten.
func TestEveryDocumentIsLinkedFromTheReadme(t *testing.T) {
	docs := documents(t)
	readme := docs[slices.IndexFunc(docs, func(d document) bool { return d.name == "README.md" })]
	for _, d := range docs {
		linked := slices.ContainsFunc(readme.links, func(l link) bool {
			name, _, _ := strings.Cut(l.target, "#")
			return name == d.name
		})
		if !linked && d.name != readme.name {
			t.Errorf("README.md does not link to %s", d.name)
		}
	}
}

// What the tests below do depends on it.
func TestBlocksSayWhatTheyAre(t *testing.T) {
	known := []string{"go", "go before", "js", "js before", "wire", "html", "jsx", "sh"}
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if !slices.Contains(known, b.info) {
				t.Errorf("%v: %q is none of %q", b, b.info, known)
			}
		}
	}
}
