package web

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
	"time"
)

// contentTypes is fixed: what mime.TypeByExtension says depends on the machine.
var contentTypes = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".map":  "application/json",
	".ts":   "text/plain; charset=utf-8",
	".wasm": "application/wasm",
}

// hashedName is a name that changes with the content, as tools/webbuild makes it.
var hashedName = regexp.MustCompile(`\.[0-9a-f]{12}\.[a-z]+$`)

type handler struct {
	files  fs.FS
	assets map[string]asset // by path
}

// asset is one file with the variants it lies there in.
type asset struct {
	name        string
	contentType string
	cache       string
	tag         string // of the content, without quotes
	variants    []variant
}

// variant is one encoding of an asset.
type variant struct {
	coding string // a content coding, or identity
	ext    string
}

// encodings in the order of preference between equals.
var encodings = []variant{{"br", ".br"}, {"gzip", ".gz"}}

// newHandler serves the files at the top of files, read once for their ETags.
func newHandler(files fs.FS) http.Handler {
	h := handler{files: files, assets: map[string]asset{}}
	names, err := fs.Glob(files, "*")
	if err != nil {
		panic(err) // the pattern above is malformed
	}
	for _, name := range names {
		contentType := contentTypes[path.Ext(name)]
		if contentType == "" {
			continue // a variant, or .gitkeep
		}
		a := asset{name: name, contentType: contentType, cache: "no-cache"}
		if a.tag, err = digest(files, name); err != nil {
			return unavailable("web/dist cannot be read: " + err.Error())
		}
		if hashedName.MatchString(name) {
			a.cache = "public, max-age=31536000, immutable"
		}
		for _, v := range encodings {
			if _, err := fs.Stat(files, name+v.ext); err == nil {
				a.variants = append(a.variants, v)
			}
		}
		a.variants = append(a.variants, variant{coding: identity})
		h.assets["/"+name] = a
	}
	if _, ok := h.assets["/longwire.js"]; !ok {
		return unavailable("web/dist is empty: run make build, then start again.")
	}
	if index, ok := h.assets["/index.html"]; ok {
		h.assets["/"] = index
	}
	return h
}

func digest(files fs.FS, name string) (string, error) {
	f, err := files.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// unavailable answers every request with a page of one sentence.
func unavailable(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, text, http.StatusServiceUnavailable)
	})
}

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, ok := h.assets[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	v := choose(strings.Join(r.Header.Values("Accept-Encoding"), ","), a.variants)
	f, err := h.files.Open(a.name + v.ext)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = f.Close() }()
	content, ok := f.(io.ReadSeeker)
	if !ok {
		http.Error(w, a.name+": cannot seek", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", a.contentType)
	header.Set("Cache-Control", a.cache)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Vary", "Accept-Encoding")
	header.Set("ETag", `"`+a.tag+"-"+v.coding+`"`)
	if v.coding != identity {
		header.Set("Content-Encoding", v.coding)
	}
	http.ServeContent(w, r, "", time.Time{}, content)
}
