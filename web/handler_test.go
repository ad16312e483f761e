package web

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

const wasmName = "longwire.0123456789ab.wasm"

func built() fstest.MapFS {
	files := fstest.MapFS{".gitkeep": {}, "bare.js": {Data: []byte("bare.js as it is")}}
	for _, name := range []string{wasmName, "longwire.js", "index.html", "demo.css", "types.d.ts", "longwire.js.map"} {
		files[name] = &fstest.MapFile{Data: []byte(name + " as it is")}
		files[name+".br"] = &fstest.MapFile{Data: []byte(name + " in brotli")}
		files[name+".gz"] = &fstest.MapFile{Data: []byte(name + " in gzip")}
	}
	return files
}

func request(t *testing.T, files fstest.MapFS, method, path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	newHandler(files).ServeHTTP(w, r)
	return w
}

func TestHandlerHeaders(t *testing.T) {
	const forever, revalidate = "public, max-age=31536000, immutable", "no-cache"
	for _, tc := range []struct{ path, file, contentType, cache string }{
		{"/", "index.html", "text/html; charset=utf-8", revalidate},
		{"/index.html", "index.html", "text/html; charset=utf-8", revalidate},
		{"/longwire.js", "longwire.js", "text/javascript; charset=utf-8", revalidate},
		{"/longwire.js.map", "longwire.js.map", "application/json", revalidate},
		{"/demo.css", "demo.css", "text/css; charset=utf-8", revalidate},
		{"/types.d.ts", "types.d.ts", "text/plain; charset=utf-8", revalidate},
		{"/" + wasmName, wasmName, "application/wasm", forever},
	} {
		t.Run(tc.path, func(t *testing.T) {
			w := request(t, built(), http.MethodGet, tc.path, http.Header{"Accept-Encoding": {"gzip, deflate, br, zstd"}})
			if w.Code != http.StatusOK || w.Body.String() != tc.file+" in brotli" {
				t.Errorf("got %d %q, want 200 with %s in brotli", w.Code, w.Body, tc.file)
			}
			got := w.Header().Clone()
			tag := got.Get("ETag")
			if len(tag) != len(`"0123456789abcdef-br"`) || !strings.HasSuffix(tag, `-br"`) {
				t.Errorf("ETag: got %s, want 16 digits and the coding", tag)
			}
			for name, want := range map[string]string{
				"Content-Type": tc.contentType, "Cache-Control": tc.cache, "Content-Encoding": "br",
				"Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff",
			} {
				if got.Get(name) != want {
					t.Errorf("%s: got %q, want %q", name, got.Get(name), want)
				}
			}
		})
	}
}

func TestHandlerNegotiates(t *testing.T) {
	for _, tc := range []struct{ name, accept, want string }{
		{"nothing asked", "", ""},
		{"both", "gzip, br", "br"},
		{"gzip alone", "gzip, deflate", "gzip"},
		{"the higher q wins", "br;q=0.5, gzip;q=0.8", "gzip"},
		{"q of 0 rules out", "br;q=0, gzip", "gzip"},
		{"identity preferred", "identity, gzip;q=0.5", ""},
		{"identity not named comes last", "gzip;q=0.1", "gzip"},
		{"a star stands for what is not named", "*", "br"},
		{"a star of 0 with gzip", "gzip, *;q=0", "gzip"},
		{"all ruled out gets identity", "br;q=0, *;q=0", ""},
		{"upper case and spaces", " GZip ; Q = 1 ", "gzip"},
		{"a q that is none", "br;q=high, gzip;q=NaN", ""},
		{"a q out of range", "br;q=7", ""},
		{"unknown codings", "zstd, deflate", ""},
		{"commas only", ",,;,", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			header := http.Header{}
			if tc.accept != "" {
				header.Set("Accept-Encoding", tc.accept)
			}
			w := request(t, built(), http.MethodGet, "/longwire.js", header)
			if got := w.Header().Get("Content-Encoding"); w.Code != http.StatusOK || got != tc.want {
				t.Errorf("Accept-Encoding %q: got %d in %q, want 200 in %q", tc.accept, w.Code, got, tc.want)
			}
		})
	}
	t.Run("several header lines count as one", func(t *testing.T) {
		w := request(t, built(), http.MethodGet, "/longwire.js", http.Header{"Accept-Encoding": {"br;q=0", "gzip"}})
		if got := w.Header().Get("Content-Encoding"); got != "gzip" {
			t.Errorf("got %q, want gzip", got)
		}
	})
	t.Run("a file without variants is sent as it is", func(t *testing.T) {
		w := request(t, built(), http.MethodGet, "/bare.js", http.Header{"Accept-Encoding": {"br"}})
		if got := w.Header().Get("Content-Encoding"); got != "" || w.Body.String() != "bare.js as it is" {
			t.Errorf("got %q in %q, want the file itself", w.Body, got)
		}
	})
}

func TestHandlerRevalidates(t *testing.T) {
	get := func(coding, tag string) *httptest.ResponseRecorder {
		t.Helper()
		return request(t, built(), http.MethodGet, "/longwire.js",
			http.Header{"Accept-Encoding": {coding}, "If-None-Match": {tag}})
	}
	tag := get("br", `"other"`).Header().Get("ETag")
	if w := get("br", tag); w.Code != http.StatusNotModified || w.Body.Len() != 0 || w.Header().Get("Vary") != "Accept-Encoding" {
		t.Errorf("same tag: got %d with %d bytes, Vary %q, want an empty 304 that varies", w.Code, w.Body.Len(), w.Header().Get("Vary"))
	}
	if w := get("gzip", tag); w.Code != http.StatusOK {
		t.Errorf("tag of another coding: got %d, want 200", w.Code)
	}
	changed := built()
	changed["longwire.js"].Data = []byte("changed")
	w := request(t, changed, http.MethodGet, "/longwire.js", http.Header{"Accept-Encoding": {"br"}, "If-None-Match": {tag}})
	if w.Code != http.StatusOK {
		t.Errorf("tag of an older build: got %d, want 200", w.Code)
	}
}

func TestHandlerRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, method, path string
		want               int
	}{
		{"an unknown name", http.MethodGet, "/nothing.js", http.StatusNotFound},
		{"a wasm of another build", http.MethodGet, "/longwire.ffffffffffff.wasm", http.StatusNotFound},
		{"a variant by its own name", http.MethodGet, "/longwire.js.br", http.StatusNotFound},
		{"a hidden file", http.MethodGet, "/.gitkeep", http.StatusNotFound},
		{"a way out", http.MethodGet, "/../embed.go", http.StatusNotFound},
		{"a folder", http.MethodGet, "/demo/", http.StatusNotFound},
		{"another method", http.MethodPost, "/longwire.js", http.StatusMethodNotAllowed},
		{"but not HEAD", http.MethodHead, "/longwire.js", http.StatusOK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if w := request(t, built(), tc.method, tc.path, nil); w.Code != tc.want {
				t.Errorf("%s %s: got %d, want %d", tc.method, tc.path, w.Code, tc.want)
			}
		})
	}
}

func TestHandlerOfAFreshCloneSaysWhatToDo(t *testing.T) {
	for _, path := range []string{"/", "/longwire.js"} {
		w := request(t, fstest.MapFS{".gitkeep": {}}, http.MethodGet, path, nil)
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "run make build") {
			t.Errorf("%s: got %d %q, want 503 that says: run make build", path, w.Code, w.Body)
		}
	}
}

func TestHandlerServesWhatIsEmbedded(t *testing.T) {
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/longwire.js", nil))
	if w.Code != http.StatusOK && w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 200 from a built tree or 503 from another", w.Code)
	}
}
