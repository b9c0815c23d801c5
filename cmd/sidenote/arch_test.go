package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport lists, for each tree of packages, which other packages of this module it may import.
// The longest matching tree counts. A new arrow is a change of the design.
var mayImport = map[string][]string{
	"retrieval":                   {},
	"retrieval/filter":            {},
	"retrieval/knowledge/extract": {},
	"retrieval/tools":             {"retrieval", "rewrite"},
	"retrieval/tracing":           {},
	"rewrite":                     {"retrieval"},
	"rewrite/chat":                {},
	"rewrite/tags":                {},
	"rewrite/tokens":              {},
	"rewrite/toolcalls":           {"retrieval", "rewrite", "cache"},
	"cache":                       {"retrieval", "rewrite"},
	"cache/redis":                 {"cache"},
	"proxy":                       {"retrieval", "rewrite", "cache"},
	"proxy/transport":             {"proxy/panics"},
	"cmd":                         {"retrieval", "rewrite", "cache", "proxy"},
}

// mayNotImport removes engines and stores from mayImport: only cmd wires them.
var mayNotImport = map[string][]string{
	"rewrite": {"retrieval/knowledge", "retrieval/vectorstore", "retrieval/engine", "retrieval/postgres", "retrieval/opensearch", "retrieval/eval"},
	"cache":   {"retrieval/knowledge", "retrieval/vectorstore", "retrieval/engine", "retrieval/postgres", "retrieval/opensearch", "retrieval/eval"},
	"proxy":   {"retrieval/knowledge", "retrieval/vectorstore", "retrieval/engine", "retrieval/postgres", "retrieval/opensearch", "retrieval/eval", "cache/redis"},
}

// onlyIn lists modules that only a few packages may import.
var onlyIn = map[string][]string{
	"github.com/valyala/fasthttp":          {"proxy", "proxy/", "cmd/"},
	"github.com/redis/go-redis":            {"cache/redis"},
	"github.com/pkoukk/tiktoken-go":        {"rewrite/tokens", "rewrite/tokens/internal/generate"}, // and tests
	"github.com/pkoukk/tiktoken-go-loader": {"rewrite/tokens/internal/generate"},                   // and tests
	"github.com/pires/":                    {"proxy/transport"},                                    // and tests
	"github.com/modelcontextprotocol/":     {"proxy/mcp"},
	"github.com/jackc/":                    {"retrieval/postgres", "retrieval/engine/enginetest"},
	"github.com/go-jose/":                  {"proxy/tenant", "proxy/tenant/tenanttest"},
	"github.com/aymanbagabas/":             {"proxy/inspector"},
	"github.com/fsnotify/":                 {"retrieval/knowledge/folder"},
	"github.com/go-git/":                   {"retrieval/knowledge/remote"},
	"github.com/minio/":                    {"retrieval/knowledge/remote"},
	"github.com/spdx/":                     {"cmd/sidenote-sbom"},
	"github.com/temoto/":                   {"retrieval/knowledge/remote"},
	"modernc.org/sqlite":                   {"retrieval/knowledge/store"},
	"github.com/klippa-app/":               {"retrieval/knowledge/extract/pdf"},
	"github.com/tetratelabs/":              {"retrieval/knowledge/extract/pdf"},
	"go.opentelemetry.io/otel/sdk":         {"cmd/sidenote/internal/telemetry"}, // and tests
	"go.opentelemetry.io/otel/exporters/":  {"cmd/sidenote/internal/telemetry"},
	"google.golang.org/grpc":               {}, // only in tests
}

// Imports point one way only.
func TestImports(t *testing.T) {
	eachFile(t, func(file string, parsed *ast.File) {
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			checkImport(t, path.Dir(file), imported)
		}
	})
}

// eachFile calls do with the imports of each Go file of the tree that is not a test. It reads files instead of
// running the go command, because a cached test result would not notice a change of that output.
func eachFile(t *testing.T, do func(file string, parsed *ast.File)) {
	t.Helper()
	root := os.DirFS("../..")
	seen := 0
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
		seen++
		src, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		do(file, parsed)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 30 {
		t.Fatalf("read %d files: the walk missed the tree", seen)
	}
}

func checkImport(t *testing.T, pkg, imported string) {
	t.Helper()
	for module, where := range onlyIn {
		if strings.HasPrefix(imported, module) && !matches(where, pkg) {
			t.Errorf("%s imports %s, which stays in %s", pkg, imported, strings.Join(where, ", "))
		}
	}
	ours, ok := strings.CutPrefix(imported, "sidenote/")
	if !ok {
		return
	}
	tree := treeOf(pkg)
	if tree == "" {
		t.Errorf("%s is in no tree of the import table", pkg)
	} else if !within(append(mayImport[tree], tree), ours) || within(mayNotImport[tree], ours) {
		t.Errorf("%s imports %s, which the import table does not allow", pkg, ours)
	}
}

// treeOf returns the longest tree of mayImport that pkg is in, "" for none.
func treeOf(pkg string) string {
	for ; pkg != "."; pkg = path.Dir(pkg) {
		if _, ok := mayImport[pkg]; ok {
			return pkg
		}
	}
	return ""
}

// within reports whether pkg is in one of the trees.
func within(trees []string, pkg string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return pkg == tree || strings.HasPrefix(pkg, tree+"/") })
}

func matches(patterns []string, pkg string) bool {
	for _, p := range patterns {
		if p == pkg || strings.HasSuffix(p, "/") && strings.HasPrefix(pkg, p) {
			return true
		}
	}
	return false
}
