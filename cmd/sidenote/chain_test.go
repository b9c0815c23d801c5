package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/goldentest"
)

// A chain file holds sidenote.yaml, its documents, and requests of its tenants (TENANT.*.json). The
// requests pass one after another through everything between listener and upstream, caches
// included. Each is compared with its expected rewrite and a line of its report.
func TestChain(t *testing.T) {
	goldentest.Each(t, "testdata/chain", func(t *testing.T, a *goldentest.Archive) {
		dir := t.TempDir()
		if err := txtar.Write(&a.Archive, dir); err != nil {
			t.Fatal(err)
		}
		s := wired(t, filepath.Join(dir, "sidenote.yaml"))
		for _, f := range a.Files {
			if tenant, _, _ := strings.Cut(f.Name, "."); filepath.Ext(f.Name) == ".json" && tenant != "want" {
				settled(t, s, tenant)
				a.Set("want."+f.Name, rewritten(t, s, tenant, bytes.TrimSuffix(f.Data, []byte("\n"))))
			}
		}
	})
}

// wired builds what serve builds, and waits until its knowledge is indexed.
func wired(t *testing.T, path string) *server.Engine {
	t.Helper()
	cfg, err := config.Load(config.Source{Path: path, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(t.Context(), cfg, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Bases.Index(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// settled waits until results of the tenant's bases are cached: those of several bases are not while
// their common minimum score is being measured.
func settled(t *testing.T, s *server.Engine, tenant string) {
	t.Helper()
	for strings.Contains(rewritten(t, s, tenant, []byte(`{"messages":[{"role":"user","content":"Where is the entrance?"}]}`)), " cache=miss ") {
	}
}

func rewritten(t *testing.T, s *server.Engine, tenant string, body []byte) string {
	t.Helper()
	policy, ok := s.Config.Tenant(config.Name(tenant))
	if !ok {
		t.Fatalf("no tenant %q", tenant)
	}
	req, err := chat.Completions.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	var res rewrite.Result
	s.Rewriter.Rewrite(t.Context(), &policy.Rewrite, req, &rewrite.Options{}, &res)
	ids := []string{}
	for _, e := range res.Ledger.Sources {
		if e.Inclusion != rewrite.Excluded {
			ids = append(ids, fmt.Sprintf("[%d] %s/%s", e.ID, e.Knowledge, e.Doc))
		}
	}
	return fmt.Sprintf("%s\n%s %s cache=%s tokens=%d %s\n", rewrite.ApplyEdits(nil, body, res.Edits),
		res.Outcome, strings.Join(ids, " "), res.Retrieval.Cache, res.Ledger.Used, res.Ledger.Exactness)
}
