package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// inspectorBudget is in bytes after brotli.
const inspectorBudget = 7_000

// versionLine is what the source of the inspector has in place of its version.
const versionLine = "const VERSION = 'dev';"

// pageFiles are the demo page and the inspector, which no connection needs.
func pageFiles(root, version string) ([]file, error) {
	web, err := filepath.Abs(filepath.Join(root, "web"))
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(web, "demo.html"))
	if err != nil {
		return nil, err
	}
	files := []file{{name: "index.html", data: page}}
	demo, err := bundle(web, api.BuildOptions{
		EntryPoints: []string{"demo.js", "demo.css"},
		External:    []string{"./longwire.js", "./inspector.js"},
		Banner:      map[string]string{"js": "/*! with uPlot, copyright Leon Sorokin, MIT: github.com/leeoniya/uPlot */"},
	})
	if err != nil {
		return nil, err
	}
	inspector, err := buildInspector(web, version)
	if err != nil {
		return nil, err
	}
	return append(append(files, demo...), inspector...), nil
}

// buildInspector makes one file of the inspector, which says its version.
func buildInspector(web, version string) ([]file, error) {
	source, err := os.ReadFile(filepath.Join(web, "inspector.js"))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(source, []byte(versionLine)); n != 1 {
		return nil, fmt.Errorf("web/inspector.js holds this line %d times, want once: %s", n, versionLine)
	}
	files, err := bundle(web, api.BuildOptions{
		Stdin: &api.StdinOptions{
			Contents:   strings.Replace(string(source), versionLine, "const VERSION = '"+version+"';", 1),
			ResolveDir: web,
			Sourcefile: "inspector.js",
			Loader:     api.LoaderJS,
		},
		Outfile: "inspector.js",
		Banner:  map[string]string{"js": "/*! longwire " + version + " | MIT */"},
	})
	for i := range files {
		if filepath.Ext(files[i].name) == ".js" {
			files[i].budget = inspectorBudget
		}
	}
	return files, err
}

// bundle makes for each entry point one file that browsers take, with its source map.
func bundle(web string, options api.BuildOptions) ([]file, error) {
	options.AbsWorkingDir = web
	if options.Outfile == "" {
		options.Outdir = web
	}
	options.Bundle = true
	options.Format = api.FormatESModule
	options.Platform = api.PlatformBrowser
	options.Target = api.ES2022
	options.Charset = api.CharsetUTF8
	options.MinifyWhitespace, options.MinifyIdentifiers, options.MinifySyntax = true, true, true
	options.Sourcemap = api.SourceMapLinked
	result := api.Build(options)
	var problems []error
	for _, m := range append(result.Errors, result.Warnings...) {
		problems = append(problems, message(m))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	files := make([]file, 0, len(result.OutputFiles))
	for _, f := range result.OutputFiles {
		files = append(files, file{name: filepath.Base(f.Path), data: f.Contents})
	}
	return files, nil
}
