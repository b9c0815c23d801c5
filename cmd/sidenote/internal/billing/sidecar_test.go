package billing_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/billing"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// A sidecar rewrites requests as sidenote serve does, over one base of documents.
type sidecar struct {
	engine *server.Engine
	policy tenant.Policy
}

// newSidecar returns a sidecar with a token budget. Its search deadline is long, so that a busy
// machine does not matter.
func newSidecar(tb testing.TB, budget int, documents []chunk.Document) *sidecar {
	tb.Helper()
	yaml := fmt.Sprintf("upstream: http://127.0.0.1:9\nknowledge: {base: %q}\npolicies: {default: {context_tokens: %d, retrieval: {deadline: 60s}}}\n", tb.TempDir(), budget)
	path := filepath.Join(tb.TempDir(), "sidenote.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		tb.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: path})
	if err != nil {
		tb.Fatal(err)
	}
	e, err := server.New(tb.Context(), cfg, server.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = e.Close() })
	content, _, err := knowledge.FromDocuments(tb.Context(), documents, e.Reader.Deps())
	if err != nil {
		tb.Fatal(err)
	}
	e.Bases.Swap("base", content, folder.Report{})
	policy, _ := e.Config.Tenant("default")
	return &sidecar{e, policy}
}

// A tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

// A setting is what a policy says about a rewrite.
type setting struct {
	placement rewrite.Placement
	mode      rewrite.Mode
}

// forms has the names of the APIs in both packages.
var forms = map[billing.API]chat.API{billing.Chat: chat.Completions, billing.Responses: chat.Responses, billing.Messages: chat.Messages}

// rewritten returns the body that goes to the upstream, and the ledger of the rewrite.
func (s *sidecar) rewritten(t tester, to setting, api billing.API, body []byte) ([]byte, *rewrite.Ledger) {
	t.Helper()
	req, err := forms[api].Parse(body)
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	p := s.policy.Rewrite
	p.Placement, p.Mode = to.placement, to.mode
	p.Digest += fmt.Sprint(to)
	r := explain.DryRun(t.Context(), s.engine.Rewriter, &s.policy, p, req, rewrite.Options{}, rewrite.ReasonOff)
	return rewrite.ApplyEdits(nil, req.Body, r.Rewrite.Edits), &r.Rewrite.Ledger
}

// documents returns the names of the sources in a prompt.
func documents(l *rewrite.Ledger) string {
	var names []string
	for _, source := range l.Sources {
		if source.Inclusion != rewrite.Excluded {
			names = append(names, fmt.Sprintf("%s#%d", source.Doc, source.Chunk))
		}
	}
	return strings.Join(names, " ")
}

// readmes returns the pages of this repository.
func readmes(tb testing.TB) (documents []chunk.Document) {
	tb.Helper()
	root := os.DirFS("../../../..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".md") || strings.Contains(path, "testdata") {
			return err
		}
		text, err := fs.ReadFile(root, path)
		documents = append(documents, chunk.Document{ID: path, Text: string(text), Markdown: true})
		return err
	})
	if err != nil || len(documents) < 20 {
		tb.Fatalf("%d pages, %v", len(documents), err)
	}
	return documents
}
