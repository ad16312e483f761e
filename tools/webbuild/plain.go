package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// plain are the files of web/ that are served as they are: what the
// shim imports only when it is wanted, the entries of the npm package beside it, and
// the types.
var plain = []string{iterateName, "react.js", "socket.js", "*.d.ts"}

func plainFiles(root string) ([]file, error) {
	var files []file
	for _, pattern := range plain {
		paths, err := filepath.Glob(filepath.Join(root, "web", pattern))
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("web/%s: there is no such file", pattern)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			files = append(files, file{name: filepath.Base(path), data: data})
		}
	}
	return files, nil
}
