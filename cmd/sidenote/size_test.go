package main

import (
	"bytes"
	"go/ast"
	"path"
	"testing"
)

// What a reader can hold in mind. Tests and generated files are not counted.
const (
	maxPackageLines = 3000
	maxFileLines    = 400
	maxMethods      = 20 // of a type
)

// No file, type or package is larger than a reader can hold in mind.
func TestRoomsAreSmall(t *testing.T) {
	lines := map[string]int{}   // of packages
	methods := map[string]int{} // of types
	eachFile(t, func(file string, src []byte, parsed *ast.File) {
		if ast.IsGenerated(parsed) {
			return
		}
		n, pkg := bytes.Count(src, []byte("\n")), path.Dir(file)
		lines[pkg] += n
		if n > maxFileLines {
			t.Errorf("%s has %d lines, more than %d", file, n, maxFileLines)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[pkg+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	})
	within := func(sizes map[string]int, what string, limit int) {
		for name, n := range sizes {
			if n > limit {
				t.Errorf("%s has %d %s, more than %d", name, n, what, limit)
			}
		}
	}
	within(lines, "lines", maxPackageLines)
	within(methods, "methods", maxMethods)
}

// receiver is the name of a method's type.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return "?"
}
