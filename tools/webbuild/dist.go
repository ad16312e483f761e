package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/andybalholm/brotli"

	"github.com/longwire/longwire/tools/gowasm"
)

// best compresses as far as the formats allow, which takes some 15 s for the wasm.
var best = level{gzip: gzip.BestCompression, brotli: brotli.WriterOptions{Quality: 11, LGWin: 24}}

type level struct {
	gzip   int
	brotli brotli.WriterOptions
}

// dist is the folder that is written.
type dist struct {
	dir   string
	level level
	out   io.Writer
}

// size is what one file weighs, in bytes.
type size struct {
	name              string
	raw, gzip, brotli int
	budget            int
}

// write brings the folder to hold these files with their variants, and nothing
// else but .gitkeep.
func (d dist) write(files []file) ([]size, error) {
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return nil, err
	}
	var sizes []size
	keep := map[string]bool{}
	for _, f := range files {
		s := size{name: f.name, raw: len(f.data), budget: f.budget}
		var err error
		if s.brotli, err = d.variant(f, ".br", d.level.brotliOf); err != nil {
			return nil, err
		}
		if s.gzip, err = d.variant(f, ".gz", d.level.gzipOf); err != nil {
			return nil, err
		}
		if err := d.put(f.name, f.data); err != nil {
			return nil, err
		}
		sizes = append(sizes, s)
		keep[f.name], keep[f.name+".br"], keep[f.name+".gz"] = true, true, true
	}
	return sizes, d.clean(keep)
}

// variant writes the compressed form of f and returns its size. For a name that
// tells the content apart, what is there already is taken as it is.
func (d dist) variant(f file, ext string, compress func([]byte) ([]byte, error)) (int, error) {
	name := f.name + ext
	if f.hashed {
		if info, err := os.Stat(filepath.Join(d.dir, name)); err == nil {
			return int(info.Size()), nil
		}
		if len(f.data) > 1<<20 {
			fmt.Fprintf(d.out, "compressing %s\n", name)
		}
	}
	data, err := compress(f.data)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return len(data), d.put(name, data)
}

// put writes a file so that it is there as a whole or not at all.
func (d dist) put(name string, data []byte) error {
	path := filepath.Join(d.dir, name)
	temporary := filepath.Join(d.dir, "."+name+".tmp")
	if err := os.WriteFile(temporary, data, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// clean removes what earlier builds left.
func (d dist) clean(keep map[string]bool) error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if keep[e.Name()] || e.Name() == ".gitkeep" {
			continue
		}
		if err := os.Remove(filepath.Join(d.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (l level) brotliOf(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w := brotli.NewWriterOptions(&b, l.brotli)
	return finish(&b, w, data)
}

func (l level) gzipOf(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, l.gzip)
	if err != nil {
		return nil, err
	}
	return finish(&b, w, data)
}

func finish(b *bytes.Buffer, w io.WriteCloser, data []byte) ([]byte, error) {
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// table prints the sizes beside the budgets and returns the names above theirs.
func table(out io.Writer, sizes []size) (over []string) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "raw\tgzip\tbrotli\tbudget\t\tfile (bytes)\t")
	for _, s := range sizes {
		budget, mark := "", ""
		if s.budget > 0 {
			budget, mark = fmt.Sprint(s.budget), fmt.Sprintf("%d%%", s.brotli*100/s.budget)
			if s.brotli > s.budget {
				over = append(over, s.name)
				mark += " OVER"
			}
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%s\t%s\t%s\t\n", s.raw, s.gzip, s.brotli, budget, mark, s.name)
	}
	_ = w.Flush()
	return over
}

// imports prints how much of the wasm's code is whose, which is what an import costs
// before it is compressed. What a package brings in with it is listed by itself.
func imports(out io.Writer, wasm []byte) error {
	packages, err := gowasm.Packages(wasm)
	if err != nil {
		return err
	}
	total := 0
	for _, p := range packages {
		total += p.Bytes
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "code\tshare\tfunctions\t\tpackage in the wasm (bytes)\t")
	for _, p := range packages {
		fmt.Fprintf(w, "%d\t%.1f%%\t%d\t\t%s\t\n", p.Bytes, float64(p.Bytes)*100/float64(total), p.Functions, p.Name)
	}
	return w.Flush()
}
