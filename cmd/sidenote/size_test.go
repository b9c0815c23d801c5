package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// What a reader can hold in mind. Tests and generated files are not counted.
const (
	maxPackageLines = 3000
	maxFileLines    = 400
	maxMethods      = 20 // of a type
)

// tooLarge are packages and types that wait for their cut, with the lines or methods that
// they may have until then.
var tooLarge = map[string]int{
	"proxy":           4100,
	"proxy/transport": 4600,
	"rewrite":         5000,

	"proxy.Metrics":       25,
	"proxy.exchange":      32,
	"proxy/admin.Handler": 31,
	"rewrite.Request":     21,
}

// No file, type or package is larger than a reader can hold in mind.
func TestRoomsAreSmall(t *testing.T) {
	lines := map[string]int{}   // of packages
	methods := map[string]int{} // of types
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && file != ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ParseComments)
		if err != nil {
			return err
		}
		if ast.IsGenerated(parsed) {
			return nil
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
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 20 {
		t.Fatalf("read %d packages: the walk missed the tree", len(lines))
	}
	within := func(sizes map[string]int, what string, limit int) {
		for name, n := range sizes {
			switch most, waits := tooLarge[name]; {
			case waits && n <= limit:
				t.Errorf("%s has %d %s: take it off the list", name, n, what)
			case n > max(most, limit):
				t.Errorf("%s has %d %s, more than %d", name, n, what, max(most, limit))
			}
		}
	}
	for name := range tooLarge {
		if lines[name] == 0 && methods[name] == 0 {
			t.Errorf("there is no %s", name)
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
