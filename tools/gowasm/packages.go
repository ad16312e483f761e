package gowasm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Package says how much of a module's code comes from a package.
type Package struct {
	Name      string // main for the program itself
	Functions int
	Bytes     int
}

// Packages are those that have code in the module, the largest first. Inlined code
// counts for the package it went into, and that of a generic function for the one
// that declares it.
func Packages(module []byte) ([]Package, error) {
	all, err := sections(module)
	if err != nil {
		return nil, err
	}
	code, err := find(all, sectionCode)
	if err != nil {
		return nil, err
	}
	bodies, err := functionBodies(code.body)
	if err != nil {
		return nil, err
	}
	_, t, err := readTables(all)
	if err != nil {
		return nil, err
	}
	functions, err := t.functions()
	if err != nil {
		return nil, err
	}
	if len(bodies) != len(functions) {
		return nil, fmt.Errorf("%d functions in the code, %d in the tables", len(bodies), len(functions))
	}
	byName := map[string]*Package{}
	for i, f := range functions {
		name := packageOf(t.name(f.Name))
		p := byName[name]
		if p == nil {
			p = &Package{Name: name}
			byName[name] = p
		}
		p.Functions++
		p.Bytes += len(bodies[i])
	}
	var packages []Package
	for _, p := range byName {
		packages = append(packages, *p)
	}
	slices.SortFunc(packages, func(a, b Package) int {
		return cmp.Or(b.Bytes-a.Bytes, strings.Compare(a.Name, b.Name))
	})
	return packages, nil
}

// packageOf is the import path in the name of a function.
func packageOf(name string) string {
	name, _, _ = strings.Cut(name, "[") // type arguments have paths of their own
	if strings.HasPrefix(name, "type:") {
		return "(comparisons of types)"
	}
	slash := strings.LastIndexByte(name, '/') + 1
	last, _, ok := strings.Cut(name[slash:], ".")
	if !ok {
		return "runtime" // assembly, and the build id
	}
	return name[:slash] + strings.ReplaceAll(last, "%2e", ".")
}
