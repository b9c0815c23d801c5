package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

var update = flag.Bool("update", false, "rewrite the want.* parts of the chain files")

// A chain file holds sidenote.yaml, the documents it names, and requests of its
// tenants (TENANT.*.json). They go one after the other through everything
// between the front door and the upstream, caches included; each is expected as
// rewritten, with a line of its report.
func TestChain(t *testing.T) {
	files, err := filepath.Glob("testdata/chain/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no chain files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { chain(t, file) })
	}
}

func chain(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	want := map[string]string{}
	var kept []txtar.File
	for _, f := range archive.Files {
		if strings.HasPrefix(f.Name, "want.") {
			want[f.Name] = string(f.Data)
			continue
		}
		kept = append(kept, f)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f.Name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := wired(t, filepath.Join(dir, "sidenote.yaml"))
	for _, f := range kept[:len(kept):len(kept)] {
		if filepath.Ext(f.Name) != ".json" {
			continue
		}
		tenant, _, _ := strings.Cut(f.Name, ".")
		got := rewritten(t, s, tenant, bytes.TrimSuffix(f.Data, []byte("\n")))
		if diff := cmp.Diff(want["want."+f.Name], got); diff != "" && !*update {
			t.Errorf("%s (-want +got):\n%s", f.Name, diff)
		}
		kept = append(kept, txtar.File{Name: "want." + f.Name, Data: []byte(got)})
	}
	if *update {
		archive.Files = kept
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// wired builds what serve builds, and waits for its knowledge.
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

func rewritten(t *testing.T, s *server.Engine, tenant string, body []byte) string {
	t.Helper()
	policy, ok := s.Config.Tenant(config.Name(tenant))
	if !ok {
		t.Fatalf("no tenant %q", tenant)
	}
	req, err := chat.Parse(body)
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
