package docs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

// document is a Markdown file taken apart.
type document struct {
	name    string          // from the root of the repository, with slashes
	blocks  []block         // fenced code
	anchors map[string]bool // what a fragment can name
	links   []link
}

// block is fenced code.
type block struct {
	document string
	line     int    // of the first line of code
	info     string // what follows the opening fence
	code     string
}

func (b block) String() string { return b.document + ":" + strconv.Itoa(b.line) }

type link struct {
	line   int
	target string
}

var (
	heading    = regexp.MustCompile(`^#{1,6} +(.*?)(?: +#+)?$`)
	inlineLink = regexp.MustCompile(`\]\(<?([^()\s>]+)>?(?: +"[^"]*")?\)`)
	reference  = regexp.MustCompile(`^\[[^\]]+\]: +<?(\S+?)>?$`)
	htmlSource = regexp.MustCompile(`\b(?:src|href|srcset)="([^" ]+)"`)
	codeSpan   = regexp.MustCompile("`+[^`]*`+")
	linkText   = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// documents reads all that the repository has to read.
func documents(t *testing.T) []document {
	t.Helper()
	names, err := filepath.Glob(root + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	inDocs, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var docs []document
	for _, name := range slices.Concat(names, inDocs, []string{root + "/web/README.md"}) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		short, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, parse(filepath.ToSlash(short), text))
	}
	return docs
}

func parse(name string, text []byte) document {
	d := document{name: name, anchors: make(map[string]bool)}
	var fence string // what ends the block, empty outside
	var open *block
	for i, line := range strings.Split(string(bytes.TrimSuffix(text, []byte("\n"))), "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case open != nil && trimmed == fence:
			d.blocks = append(d.blocks, *open)
			open = nil
		case open != nil:
			open.code += line + "\n"
		case strings.HasPrefix(trimmed, "```"):
			fence = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`"))]
			open = &block{document: name, line: i + 2, info: strings.Trim(trimmed, "` ")}
		case strings.HasPrefix(line, "    "):
			// A block that is indented.
		default:
			d.text(i+1, line)
		}
	}
	return d
}

// text reads a line outside of code.
func (d *document) text(n int, line string) {
	if m := heading.FindStringSubmatch(line); m != nil {
		d.anchor(m[1])
	}
	line = codeSpan.ReplaceAllString(line, "")
	for _, pattern := range []*regexp.Regexp{inlineLink, reference, htmlSource} {
		for _, m := range pattern.FindAllStringSubmatch(line, -1) {
			d.links = append(d.links, link{n, m[1]})
		}
	}
}

// anchor notes the name that GitHub gives to a heading.
func (d *document) anchor(heading string) {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, linkText.ReplaceAllString(heading, "$1"))
	for i, unique := 0, name; ; {
		if !d.anchors[unique] {
			d.anchors[unique] = true
			return
		}
		i++
		unique = name + "-" + strconv.Itoa(i)
	}
}

// blocksOf returns the blocks of all documents with one of these infos.
func blocksOf(t *testing.T, infos ...string) []block {
	t.Helper()
	var found []block
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			for _, info := range infos {
				if b.info == info {
					found = append(found, b)
				}
			}
		}
	}
	if len(found) == 0 {
		t.Fatalf("no block of %v in any document", infos)
	}
	return found
}
