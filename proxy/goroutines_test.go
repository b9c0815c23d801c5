package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// Goroutines and timers of this package and its subpackages must be started by package panics,
// since a panic in any other would end the process. The test parses files without types, so it
// checks everything that is called Go or AfterFunc.
func TestNoBareGoroutine(t *testing.T) {
	seen, used := 0, 0
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") ||
			strings.HasPrefix(file, "panics/") || strings.HasPrefix(file, "transport/transporttest/") {
			return err
		}
		seen++
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch starts, ours := startsGoroutine(n); {
			case ours:
				used++
			case starts:
				t.Errorf("%s: starts a goroutine that nothing recovers; use package panics", set.Position(n.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 60 || used < 8 {
		t.Errorf("%d files, and %d goroutines of package panics: the walk missed the tree", seen, used)
	}
}

// startsGoroutine reports whether n starts a goroutine, and whether by package panics.
func startsGoroutine(n ast.Node) (starts, ours bool) {
	if _, ok := n.(*ast.GoStmt); ok {
		return true, false
	}
	called, ok := n.(*ast.SelectorExpr)
	if !ok || called.Sel.Name != "Go" && called.Sel.Name != "AfterFunc" {
		return false, false
	}
	by, ok := called.X.(*ast.Ident)
	return true, ok && by.Name == "panics"
}

// Shadow work that panics does not affect the answer, and is reported as failed.
func TestShadow(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Shadow })},
	}, retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) { panic("in the shadow") }))
	if resp, body := g.post(t, chatBody); resp.StatusCode != 200 || body != "{}" {
		t.Errorf("%d, %s", resp.StatusCode, body)
	}
	if r := g.reports.next(t); r.Outcome != rewrite.Shadowed || r.Reason != report.ReasonInternal || r.Model() != "test" {
		t.Errorf("report %s, %s, model %s", r.Outcome, r.Reason, r.Model())
	}
	if said := g.log.take(); !strings.Contains(said, "BUG: panic") || !strings.Contains(said, "TestShadow") || strings.Contains(said, "parental") {
		t.Errorf("log: %s", said)
	}
	if n := reporttest.Count(t, g.metrics, "sidenote_panics_total", ""); n != 1 {
		t.Errorf("counted %v", n)
	}
}

// An answer is still relayed if reading its usage panics.
func TestTap(t *testing.T) {
	var heard []any
	tap := proxy.BrokenTap(func(value any, _ []byte) { heard = append(heard, value) })
	tap([]byte("one"))
	tap([]byte("two"))
	if len(heard) != 1 {
		t.Errorf("heard of %v", heard)
	}
}

// breakingLog is a log that panics at its first line.
type breakingLog struct{ bytes.Buffer }

func (b *breakingLog) Write(p []byte) (int, error) {
	if b.Len() == 0 {
		b.WriteString("broken\n")
		panic("log")
	}
	return b.Buffer.Write(p)
}

// A log that panics loses the lines of that write, but not those that follow.
func TestAsyncWriter(t *testing.T) {
	var to breakingLog
	w := report.NewAsyncWriter(&to)
	_, _ = w.Write([]byte("first\n"))
	for w.Dropped() == 0 {
		runtime.Gosched()
	}
	_, _ = w.Write([]byte("second\n"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.Close(ctx); errors.Is(err, context.DeadlineExceeded) || to.String() != "broken\nsecond\n" || w.Dropped() != 1 {
		t.Errorf("wrote %q, dropped %d, %v", to.String(), w.Dropped(), err)
	}
}
