package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/evanw/esbuild/pkg/api"

	"github.com/longwire/longwire/web"
)

// pagePath is where the page of a tab is. The version is part of each path below it: a
// new one finds the browser's cache empty.
func pagePath(version string) string { return "/v/" + version + "/page/page.html" }

// loadPath is where the page is that says when it has its first event in a way.
func loadPath(version string, w way) string {
	return "/v/" + version + "/page/load-" + w.name + ".html"
}

// loaded is what such a page says.
type loaded struct {
	Visit int     `json:"visit"`
	Ms    float64 `json:"ms"` // since the page was asked for
}

// site serves the pages and what they load, and takes what these say.
type site struct {
	mux      http.ServeMux
	longwire string            // the shim
	web      http.Handler      // of what it loads
	files    map[string][]byte // brotli, by name
	loaded   chan loaded
}

// newSite bundles the scripts in dir, each for itself as an application's would be.
func newSite(dir string, tabs http.Handler) (*site, error) {
	s := &site{files: make(map[string][]byte), web: web.Handler(), loaded: make(chan loaded)}
	s.longwire = filepath.Join(dir, "../../web/dist/longwire.js")
	page := filepath.Join(dir, "page")
	for _, name := range []string{"page.html", "page.js"} {
		text, err := os.ReadFile(filepath.Join(page, name))
		if err != nil {
			return nil, err
		}
		s.add(name, text)
	}
	load, err := os.ReadFile(filepath.Join(page, "load.html"))
	if err != nil {
		return nil, err
	}
	for _, w := range ways {
		module := filepath.Join(page, "ways", w.name+".js")
		s.add("load-"+w.name+".html", bytes.ReplaceAll(load, []byte("WAY"), []byte(w.name)))
		if err := s.bundle("load-"+w.name+".js", filepath.Join(page, "load.js"), module); err != nil {
			return nil, err
		}
		if err := s.bundle(w.name+".js", module, module); err != nil {
			return nil, err
		}
	}
	s.mux.HandleFunc("GET /v/{version}/page/{name}", s.serveFile)
	s.mux.Handle("GET /tabs", tabs)
	s.mux.HandleFunc("POST /loaded", s.report)
	return s, nil
}

// bundle builds a script and all that it imports; only Longwire's wasm and its loader
// stay files beside it. What is called way is the module.
func (s *site) bundle(name, entry, module string) error {
	built := api.Build(api.BuildOptions{
		EntryPoints: []string{entry},
		Alias:       map[string]string{"way": module, "longwire": s.longwire},
		Bundle:      true, Format: api.FormatESModule, Target: api.ES2022,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
	})
	if len(built.Errors) > 0 {
		return fmt.Errorf("bundle %s: %s", name, built.Errors[0].Text)
	}
	s.add(name, built.OutputFiles[0].Contents)
	return nil
}

func (s *site) add(name string, text []byte) {
	var packed bytes.Buffer
	w := brotli.NewWriterLevel(&packed, brotli.BestCompression)
	_, _ = w.Write(text) // into memory
	_ = w.Close()
	s.files[name] = packed.Bytes()
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// An isolated page has the finest clock.
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
	s.mux.ServeHTTP(w, r)
}

// forEver is how files are cached whose names change with their content, as bundlers
// make them.
const forEver = "public, max-age=31536000, immutable"

func (s *site) serveFile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	data := s.files[name]
	if data == nil {
		r.URL.Path = "/" + name
		s.web.ServeHTTP(w, r)
		return
	}
	kind := "text/javascript"
	if strings.HasSuffix(name, ".html") {
		kind = "text/html"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Encoding", "br")
	w.Header().Set("Cache-Control", forEver)
	_, _ = w.Write(data) // the page may be gone
}

func (s *site) report(w http.ResponseWriter, r *http.Request) {
	var l loaded
	if err := json.NewDecoder(r.Body).Decode(&l); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case s.loaded <- l:
	case <-r.Context().Done():
	}
}
