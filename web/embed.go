// Package web holds what a browser loads, embedded in the binary: the shim, the
// hub as wasm and the demo page.
package web

import (
	"embed"
	"io/fs"
	"net/http"
)

// The folder is filled by make build; of a fresh clone it holds nothing, and the
// handler says so.
//
//go:embed all:dist
var embedded embed.FS

// Handler serves the built files, each at /NAME and the demo page at /.
//
// Of each it sends the brotli or gzip variant to who accepts it (RFC 9110 section
// 12.5.3). Names that hold a hash may be kept for ever, all others are
// revalidated by their ETag at each use. Built from a tree where make build has
// not run, it answers everything with 503 and a page that says so.
func Handler() http.Handler {
	dist, err := fs.Sub(embedded, "dist")
	if err != nil {
		panic(err) // the name above is not a valid path
	}
	return newHandler(dist)
}
