package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

const (
	shimName    = "longwire.js"
	iterateName = "iterate.js" // which the shim imports when it is wanted
)

// constants are what the shim has to know of its build. Its source holds those
// of devConstants, in the lines that they make.
type constants struct {
	Version string // of shim and wasm alike
	Wasm    string // where the wasm is, relative to the shim
	Exec    string // where Go's loader is, relative to the shim
}

var devConstants = constants{Version: "dev", Wasm: "./longwire.wasm", Exec: "./wasm_exec.js"}

// lines are those that hold c. Bundlers find by this form of URL what belongs to a
// module, and take it along.
func (c constants) lines() []byte {
	return fmt.Appendf(nil, `const BUILD = {
  version: '%s',
  wasm: new URL('%s', import.meta.url).href,
  exec: new URL('%s', import.meta.url).href,
};`, c.Version, c.Wasm, c.Exec)
}

// buildShim puts the constants into the shim and minifies it.
func buildShim(root string, c constants) (code, sourceMap []byte, err error) {
	dir := filepath.Join(root, "web")
	source, err := os.ReadFile(filepath.Join(dir, shimName))
	if err != nil {
		return nil, nil, err
	}
	if n := bytes.Count(source, devConstants.lines()); n != 1 {
		return nil, nil, fmt.Errorf("web/%s holds this %d times, want once: %s", shimName, n, devConstants.lines())
	}
	source = bytes.Replace(source, devConstants.lines(), c.lines(), 1)
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	result := api.Build(api.BuildOptions{
		Stdin: &api.StdinOptions{
			Contents:   string(source),
			ResolveDir: dir,
			Sourcefile: shimName,
			Loader:     api.LoaderJS,
		},
		AbsWorkingDir:     dir,
		Outfile:           shimName,
		Bundle:            true,
		External:          []string{"./" + iterateName},
		Format:            api.FormatESModule,
		Platform:          api.PlatformBrowser,
		Target:            api.ES2022,
		Charset:           api.CharsetUTF8,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		Sourcemap:         api.SourceMapLinked,
		Banner:            map[string]string{"js": "/*! longwire " + c.Version + " | MIT */"},
	})
	var problems []error
	for _, m := range append(result.Errors, result.Warnings...) {
		problems = append(problems, message(m))
	}
	if len(problems) > 0 {
		return nil, nil, errors.Join(problems...)
	}
	for _, f := range result.OutputFiles {
		if filepath.Ext(f.Path) == ".map" {
			sourceMap = f.Contents
		} else {
			code = f.Contents
		}
	}
	return code, sourceMap, nil
}

func message(m api.Message) error {
	if m.Location == nil {
		return errors.New(m.Text)
	}
	return fmt.Errorf("web/%s:%d: %s", m.Location.File, m.Location.Line, m.Text)
}
