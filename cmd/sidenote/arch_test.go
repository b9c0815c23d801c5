package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
)

// mayImport is the import table of the design: each package of ours, or a tree
// of them (…/), and what of ours it may import. A new arrow is a change of the
// design.
var mayImport = map[string][]string{
	"retrieval":                               {"retrieval/filter", "retrieval/hit", "retrieval/score", "retrieval/sketch"},
	"retrieval/hit":                           {"retrieval/packed", "retrieval/score", "retrieval/sketch"},
	"retrieval/filter":                        {},
	"retrieval/packed":                        {},
	"retrieval/recent":                        {},
	"retrieval/score":                         {"retrieval/packed"},
	"retrieval/sketch":                        {},
	"retrieval/analysis":                      {"retrieval/recent"},
	"retrieval/retrievaltest":                 {"retrieval", "retrieval/filter"},
	"retrieval/eval":                          {"retrieval"},
	"retrieval/followup":                      {"retrieval"},
	"retrieval/tools":                         {"retrieval"},
	"retrieval/tools/toolstest":               {"retrieval", "retrieval/analysis", "retrieval/filter", "retrieval/knowledge", "retrieval/knowledge/document", "retrieval/knowledge/knowledgetest", "retrieval/tools"},
	"retrieval/knowledge":                     {"retrieval", "retrieval/knowledge/apart", "retrieval/knowledge/room", "retrieval/filter", "retrieval/analysis", "retrieval/knowledge/document", "retrieval/knowledge/chunk", "retrieval/knowledge/extract", "retrieval/knowledge/extract/docx", "retrieval/knowledge/extract/pdf", "retrieval/knowledge/folder", "retrieval/knowledge/index", "retrieval/knowledge/index/bm25", "retrieval/knowledge/index/dense", "retrieval/knowledge/index/mapped", "retrieval/sketch"},
	"retrieval/knowledge/document":            {"retrieval/knowledge/extract"},
	"retrieval/knowledge/extract":             {"retrieval/knowledge/extract/markdown", "retrieval/knowledge/extract/rst"},
	"retrieval/knowledge/extract/rst":         {"retrieval/knowledge/extract/markdown"},
	"retrieval/knowledge/extract/pdf":         {"retrieval/knowledge/extract"},
	"retrieval/knowledge/extract/docx":        {"retrieval/knowledge/extract"},
	"retrieval/knowledge/extract/extracttest": {},
	"retrieval/knowledge/folder":              {"retrieval/knowledge/document", "retrieval/knowledge/extract", "retrieval/knowledge/extract/docx", "retrieval/knowledge/extract/pdf"},
	"retrieval/knowledge/folder/watch":        {},
	"retrieval/knowledge/room":                {},
	"retrieval/knowledge/apart":               {"retrieval/knowledge/extract", "retrieval/knowledge/extract/pdf", "retrieval/knowledge/folder"},
	"retrieval/knowledge/chunk":               {"retrieval", "retrieval/knowledge/document", "retrieval/knowledge/extract"},
	"retrieval/knowledge/index":               {"retrieval", "retrieval/filter", "retrieval/knowledge/chunk", "retrieval/knowledge/document", "retrieval/knowledge/index/bm25", "retrieval/knowledge/index/dense", "retrieval/knowledge/index/mapped", "retrieval/recent", "retrieval/sketch"},
	"retrieval/knowledge/index/bm25":          {"retrieval/analysis", "retrieval/knowledge/index/mapped", "retrieval/recent"},
	"retrieval/knowledge/index/dense":         {},
	"retrieval/knowledge/index/mapped":        {},
	"retrieval/knowledge/store":               {"retrieval/knowledge/document"},
	"retrieval/knowledge/library":             {"retrieval", "retrieval/knowledge/extract", "retrieval/knowledge/room", "retrieval/knowledge", "retrieval/knowledge/document", "retrieval/knowledge/chunk", "retrieval/knowledge/folder", "retrieval/knowledge/index", "retrieval/knowledge/index/bm25", "retrieval/knowledge/index/dense", "retrieval/knowledge/index/mapped", "retrieval/knowledge/store"},
	"retrieval/knowledge/knowledgetest":       {},
	"retrieval/badparam":                      {},
	"retrieval/remote":                        {"retrieval/badparam"},
	"retrieval/llm":                           {"retrieval/badparam", "retrieval/remote"},
	"retrieval/rerank":                        {"retrieval", "retrieval/llm", "retrieval/remote"},
	"retrieval/plan":                          {"retrieval", "retrieval/llm"},
	"retrieval/vectorstore":                   {"retrieval", "retrieval/filter", "retrieval/remote", "retrieval/score"},
	"retrieval/embed":                         {"retrieval", "retrieval/remote"},
	"retrieval/embed/embedtest":               {},
	"rewrite":                                 {"retrieval", "retrieval/filter", "retrieval/followup", "retrieval/recent", "rewrite/block", "rewrite/chat", "rewrite/chunks", "rewrite/cost", "rewrite/model", "rewrite/present", "rewrite/similar", "rewrite/tags", "rewrite/template", "rewrite/tokens", "rewrite/calibration", "rewrite/edit"},
	"rewrite/options":                         {"retrieval/filter", "rewrite", "rewrite/chat", "rewrite/chunks", "rewrite/present", "rewrite/similar"},
	"rewrite/present":                         {"retrieval/recent", "rewrite/chat", "rewrite/cost"},
	"rewrite/similar":                         {},
	"rewrite/block":                           {"retrieval", "rewrite/tags"},
	"rewrite/chat":                            {},
	"rewrite/chunks":                          {"rewrite/chat", "rewrite/tags", "rewrite/tokens"},
	"rewrite/assemble":                        {"rewrite/options", "retrieval", "retrieval/analysis", "rewrite", "rewrite/chat", "rewrite/chunks"},
	"rewrite/cost":                            {"retrieval", "rewrite/chat", "rewrite/tokens"},
	"rewrite/model":                           {"retrieval", "rewrite/calibration", "rewrite/chat", "rewrite/cost", "rewrite/tokens"},
	"rewrite/calibration":                     {},
	"rewrite/toolhistory":                     {"rewrite/chat"},
	"rewrite/toolhistory/historytest":         {},
	"rewrite/metered":                         {"rewrite", "rewrite/chat"},
	"rewrite/tags":                            {},
	"rewrite/tags/tagstest":                   {"rewrite/tags"},
	"rewrite/template":                        {"rewrite/tags"},
	"rewrite/tokens":                          {},
	"rewrite/tokens/internal/":                {},
	"deploy/models":                           {},
	"cache":                                   {"retrieval", "retrieval/hit", "retrieval/packed", "retrieval/recent", "retrieval/score"},
	"cache/budget/price":                      {},
	"cache/cachetest":                         {"cache", "retrieval"},
	"cache/budget":                            {},
	"cache/budget/budgettest":                 {"cache/budget"},
	"cache/redis":                             {"cache", "cache/budget"},
	"cache/turns":                             {"cache", "retrieval", "rewrite/toolhistory"},
	"cache/outputs":                           {"cache"},
	"cache/redis/redistest":                   {},
	"proxy/killswitch":                        {"rewrite"},
	"proxy/apierror":                          {"proxy/transport", "proxy/meter", "proxy/report", "retrieval", "retrieval/filter", "rewrite"},
	"proxy":                                   {"retrieval/badparam", "proxy/answertext", "cache/turns", "rewrite/staged", "rewrite/options", "rewrite", "retrieval", "proxy/apierror", "proxy/killswitch", "proxy/transport", "proxy/transport/outbound", "proxy/coding", "proxy/events", "proxy/identity", "proxy/metrics", "proxy/origin", "proxy/panics", "proxy/report", "proxy/route", "proxy/toolong", "proxy/transport/poison", "proxy/address", "proxy/completion", "proxy/usage", "rewrite/metered", "proxy/memory", "cache/budget", "proxy/meter", "proxy/spend", "proxy/form", "cache/budget/price", "proxy/headeroptions", "proxy/keyuse", "proxy/planning", "proxy/samples", "proxy/rounds", "rewrite/offer", "proxy/toolbox", "proxy/transport/inbound", "rewrite/edit", "proxy/citations", "proxy/cited", "proxy/answers", "proxy/stages", "cache/outputs", "rewrite/block", "rewrite/chat", "proxy/tenancy", "proxy/unsupported"},
	"proxy/headeroptions":                     {"rewrite", "rewrite/options"},
	"proxy/transport":                         {"proxy/panics", "proxy/transport/inbound", "proxy/transport/outbound", "proxy/transport/poison", "proxy/transport/tcp", "proxy/transport/wire", "proxy/memory", "proxy/address"},
	"proxy/transport/outbound":                {"proxy/panics", "proxy/transport/tcp", "proxy/transport/certs"},
	"proxy/transport/inbound":                 {"proxy/address", "proxy/transport/certs", "proxy/transport/tcp", "proxy/panics"},
	"proxy/transport/certs":                   {},
	"proxy/transport/certs/certstest":         {},
	"proxy/transport/poison":                  {},
	"proxy/transport/tcp":                     {"proxy/panics"},
	"proxy/transport/wire":                    {},
	"proxy/identity":                          {},
	"proxy/origin":                            {},
	"proxy/address":                           {},
	"proxy/identity/identitytest":             {"proxy/identity"},
	"proxy/memory":                            {},
	"proxy/panics":                            {},
	"proxy/coding":                            {},
	"proxy/completion":                        {},
	"proxy/unsupported":                       {"retrieval/badparam"},
	"proxy/report":                            {"proxy/unsupported", "proxy/citations", "proxy/route", "proxy/usage", "rewrite", "retrieval", "cache/budget"},
	"proxy/report/reporttest":                 {"proxy/report", "rewrite", "retrieval"},
	"proxy/meter":                             {"cache/budget", "cache/budget/price"},
	"proxy/form":                              {"rewrite"},
	"proxy/planning":                          {"cache/budget", "cache/budget/price", "proxy/meter", "proxy/panics", "proxy/usage", "retrieval", "retrieval/llm", "retrieval/plan", "retrieval/remote", "retrieval/rerank", "rewrite"},
	"proxy/toolbox":                           {"retrieval", "retrieval/tools", "rewrite"},
	"proxy/loop/looptest":                     {"rewrite/toolhistory/historytest"},
	"proxy/toolbox/xmlcalls":                  {"proxy/toolbox", "rewrite/tags"},
	"proxy/mcp":                               {"proxy/headeroptions", "proxy", "proxy/apierror", "proxy/killswitch", "proxy/meter", "proxy/panics", "proxy/planning", "proxy/report", "proxy/toolbox", "proxy/transport/inbound", "retrieval/tools", "rewrite", "proxy/transport/tcp"},
	"proxy/spend":                             {"cache/budget", "cache/budget/price", "proxy/meter", "proxy/report", "proxy/route", "proxy/transport", "proxy/usage", "rewrite", "rewrite/metered"},
	"proxy/metrics":                           {"proxy/citations", "proxy/report", "proxy/route", "rewrite", "retrieval", "retrieval/hit", "retrieval/recent", "cache/budget", "proxy/meter"},
	"proxy/metrics/metricstest":               {"proxy/metrics"},
	"proxy/requestlog":                        {"cache/budget", "retrieval", "proxy/citations", "proxy/panics", "proxy/report", "proxy/route", "proxy/transport/poison", "rewrite", "proxy/memory"},
	"proxy/route":                             {},
	"rewrite/edit":                            {},
	"proxy/toolong":                           {},
	"proxy/keyuse":                            {},
	"proxy/samples":                           {"proxy/panics", "proxy/transport/poison"},
	"proxy/loop":                              {"proxy/events", "rewrite/chat"},
	"proxy/answers":                           {"proxy/loop", "proxy/panics", "proxy/transport"},
	"proxy/rounds":                            {"proxy/answers", "cache/turns", "proxy/events", "proxy/loop", "proxy/panics", "proxy/report", "proxy/toolbox", "proxy/transport", "proxy/toolbox/xmlcalls", "retrieval", "rewrite", "rewrite/chat", "rewrite/edit", "rewrite/offer", "rewrite/tokens", "rewrite/toolhistory"},
	"proxy/tenancy":                           {"proxy/address", "proxy/apierror", "proxy/cited", "proxy/headeroptions", "proxy/identity", "proxy/keyuse", "proxy/killswitch", "proxy/meter", "proxy/origin", "proxy/report", "proxy/route", "proxy/toolbox", "proxy/transport/inbound", "rewrite", "rewrite/staged"},
	"proxy/stages":                            {"retrieval/llm", "proxy/answers", "proxy/coding", "proxy/events", "proxy/loop", "proxy/panics", "proxy/report", "proxy/transport", "rewrite", "rewrite/edit", "rewrite/staged"},
	"rewrite/staged":                          {"retrieval", "rewrite", "rewrite/chat", "rewrite/edit", "rewrite/tags", "rewrite/tokens"},
	"rewrite/offer":                           {"rewrite", "rewrite/chat", "rewrite/edit"},
	"proxy/events":                            {},
	"proxy/citations":                         {"retrieval/llm", "proxy/events", "proxy/panics", "rewrite/chat"},
	"proxy/cited":                             {"proxy/citations", "proxy/coding", "proxy/panics", "proxy/report", "proxy/transport", "retrieval", "rewrite", "rewrite/chat"},
	"proxy/usage":                             {"proxy/coding", "proxy/events", "proxy/route"},
	"proxy/answertext":                        {"proxy/coding", "proxy/events"},
	"proxy/durations":                         {},
	"proxy/overview":                          {"proxy/durations", "proxy/meter", "proxy/report", "proxy/route", "retrieval", "rewrite"},
	"proxy/explain":                           {"proxy/answertext", "proxy/citations", "proxy/report", "proxy/route", "proxy/usage", "rewrite", "retrieval"},
	"proxy/inspector":                         {"cache/budget", "proxy/apierror", "proxy/citations", "proxy/cited", "proxy/dryrun", "proxy/explain", "proxy/headeroptions", "proxy/inspector/asked", "proxy/inspector/diff", "proxy/inspector/layout", "proxy/inspector/sidebyside", "proxy/killswitch", "proxy/lookup", "proxy/meter", "proxy/overview", "proxy/report", "proxy/tenancy", "proxy/transport", "rewrite", "rewrite/calibration"},
	"proxy/inspector/diff":                    {},
	"proxy/inspector/layout":                  {},
	"proxy/inspector/asked":                   {"proxy/explain"},
	"proxy/inspector/sidebyside":              {"rewrite"},
	"proxy/lookup":                            {"proxy/apierror", "proxy/explain", "proxy/planning", "proxy/report", "proxy/tenancy", "retrieval", "retrieval/filter", "retrieval/score", "rewrite"},
	"proxy/lookup/lookuptest":                 {"proxy/lookup", "retrieval"},
	"proxy/dryrun":                            {"proxy", "proxy/report", "proxy/rounds", "rewrite", "rewrite/staged", "proxy/killswitch", "proxy/planning", "retrieval", "rewrite/options"},
	"proxy/admin":                             {"cache/budget", "proxy", "proxy/apierror", "proxy/dryrun", "proxy/explain", "proxy/headeroptions", "proxy/killswitch", "proxy/lookup", "proxy/overview", "proxy/panics", "proxy/planning", "proxy/report", "proxy/toolbox", "proxy/transport", "retrieval", "retrieval/filter", "retrieval/score", "rewrite", "rewrite/assemble", "rewrite/options", "proxy/transport/inbound"},
	"cmd/":                                    {"retrieval", "retrieval/", "rewrite", "rewrite/", "cache", "cache/", "proxy", "proxy/", "cmd/"},

	"cmd/sidenote/internal/adminclient":                 {"proxy/admin", "retrieval/knowledge/store", "cmd/internal/console"},
	"cmd/sidenote/internal/adminclient/adminclienttest": {"retrieval/knowledge/store"},
	"cmd/sidenote/internal/evaluation":                  {"retrieval", "retrieval/analysis", "retrieval/eval", "retrieval/followup", "retrieval/knowledge", "retrieval/knowledge/document", "retrieval/knowledge/folder", "retrieval/knowledge/library", "rewrite", "proxy", "proxy/planning", "cmd/internal/console", "cmd/sidenote/internal/config", "cmd/sidenote/internal/config/spelling", "cmd/sidenote/internal/engine", "cmd/sidenote/internal/engine/embedding"},

	"cmd/sidenote/internal/engine/background": {"cache", "cache/redis", "cmd/sidenote/internal/config", "proxy/metrics", "proxy/panics", "retrieval", "retrieval/knowledge/folder"},
	"cmd/sidenote/internal/engine/caching":    {"cache", "cache/outputs", "cache/redis", "cache/turns", "cmd/sidenote/internal/config", "cmd/sidenote/internal/engine/background", "retrieval", "retrieval/embed"},
	"cmd/sidenote/internal/engine/exchange":   {"cache", "rewrite/calibration"},
	"cmd/sidenote/internal/engine/planners":   {"cache", "cache/budget", "cmd/sidenote/internal/config", "proxy", "proxy/meter", "proxy/metrics", "proxy/planning", "retrieval", "retrieval/llm", "retrieval/rerank", "rewrite"},
	"cmd/sidenote/internal/engine/policies":   {"cmd/sidenote/internal/config", "cmd/sidenote/internal/config/origin", "proxy", "proxy/inspector"},
	"cmd/sidenote/internal/engine/models":     {"retrieval/recent", "rewrite", "rewrite/tokens"},
	"cmd/sidenote/internal/engine/issuers":    {"proxy", "proxy/identity", "cmd/sidenote/internal/config", "cmd/sidenote/internal/config/callers"},
	"cmd/sidenote/internal/engine/embedding": {
		"retrieval", "retrieval/embed", "retrieval/knowledge", "retrieval/knowledge/index/dense", "retrieval/knowledge/library", "retrieval/knowledge/store",
		"cmd/sidenote/internal/config", "cmd/internal/console",
	},
	"cmd/sidenote/internal/engine": {
		"retrieval", "retrieval/", "rewrite", "rewrite/", "cache", "cache/", "proxy", "proxy/",
		"cmd/sidenote/internal/config", "cmd/sidenote/internal/config/callers", "cmd/sidenote/internal/config/modelrows", "cmd/sidenote/internal/engine/background", "cmd/sidenote/internal/engine/caching", "cmd/sidenote/internal/engine/embedding", "cmd/sidenote/internal/engine/exchange", "cmd/sidenote/internal/engine/issuers", "cmd/sidenote/internal/engine/models", "cmd/sidenote/internal/engine/planners", "cmd/sidenote/internal/engine/policies", "cmd/internal/console",
	},
}

// onlyIn lists modules that stay in a few packages.
var onlyIn = map[string][]string{
	"github.com/valyala/fasthttp":      {"proxy", "proxy/", "cmd/"},
	"github.com/redis/go-redis":        {"cache/redis"},
	"github.com/pkoukk/":               {"rewrite/tokens/internal/generate"}, // and tests
	"github.com/pires/":                {"proxy/transport/inbound"},          // and tests
	"github.com/modelcontextprotocol/": {"proxy/mcp"},
	"github.com/go-jose/":              {"proxy/identity", "proxy/identity/identitytest"},
	"github.com/aymanbagabas/":         {"proxy/inspector/diff"},
	"github.com/fsnotify/":             {"retrieval/knowledge/folder/watch"},
	"modernc.org/sqlite":               {"retrieval/knowledge/store"},
	"github.com/klippa-app/":           {"retrieval/knowledge/extract/pdf"},
	"github.com/tetratelabs/":          {"retrieval/knowledge/extract/pdf"},
}

// The arrows point one way.
func TestImports(t *testing.T) {
	eachFile(t, func(file string, _ []byte, parsed *ast.File) {
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			checkImport(t, path.Dir(file), imported)
		}
	})
}

// eachFile calls do with each Go file of the tree that is no test. Files are read rather
// than asked of the go command, whose answer a cached test would not notice to have
// changed.
func eachFile(t *testing.T, do func(file string, src []byte, parsed *ast.File)) {
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
		parsed, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ParseComments)
		if err != nil {
			return err
		}
		do(file, src, parsed)
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
	allowed, known := rule(pkg)
	if !known {
		t.Errorf("%s is not in the import table", pkg)
		return
	}
	if !matches(allowed, ours) {
		t.Errorf("%s imports %s, which the import table does not allow", pkg, ours)
	}
}

// rule returns what pkg may import: by its own row, else by the longest tree
// that it is in.
func rule(pkg string) ([]string, bool) {
	if allowed, ok := mayImport[pkg]; ok {
		return allowed, true
	}
	for tree := path.Dir(pkg); tree != "."; tree = path.Dir(tree) {
		if allowed, ok := mayImport[tree+"/"]; ok {
			return allowed, true
		}
	}
	return nil, false
}

func matches(patterns []string, pkg string) bool {
	for _, p := range patterns {
		if p == pkg || strings.HasSuffix(p, "/") && strings.HasPrefix(pkg, p) {
			return true
		}
	}
	return false
}
