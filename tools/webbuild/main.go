// Command webbuild makes web/dist: the hub as wasm, Go's loader for it, the shim
// minified, and the demo page, each with its brotli and gzip variant beside it.
//
// It needs Go and nothing else. What lies in web/dist already under a name that
// holds its hash is not compressed again, so a build without changes is quick.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	root := flag.String("root", "..", "the top `folder` of the repository")
	full := flag.Bool("full", false, "leave the wasm as Go makes it: the standard library as it is, and whole tracebacks")
	check := flag.Bool("check", false, "print what the wasm is made of, and fail when a file is over its budget")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *root, *full, *check, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "webbuild:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, full, check bool, out io.Writer) error {
	start := time.Now()
	files, version, err := build(ctx, root, full, out)
	if err != nil {
		return err
	}
	d := dist{dir: filepath.Join(root, "web", "dist"), level: best, out: out}
	sizes, err := d.write(files)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "web/dist holds %s, made in %s\n\n", version, time.Since(start).Round(100*time.Millisecond))
	over := table(out, sizes)
	if !check {
		return nil
	}
	if err := imports(out, files[0].data); err != nil {
		return err
	}
	if len(over) > 0 {
		return fmt.Errorf("over budget: %v", over)
	}
	return nil
}
