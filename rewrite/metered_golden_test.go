package rewrite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"sidenote/rewrite"
)

// A policyOf is the content of policy.json.
type policyOf struct {
	Route  string
	Policy rewrite.MeterPolicy
	Prompt int64 // tokens
}

var routes = map[string]rewrite.MeteredRoute{
	"chat": rewrite.MeteredChat, "completions": rewrite.MeteredCompletions, "responses": rewrite.MeteredResponses, "embeddings": rewrite.MeteredEmbeddings, "other": rewrite.MeteredOther,
}

// A golden file holds policy.json, and requests, each with its result: the body sent to the
// upstream, its edits by name, whether usage is hidden, and the estimate; or the error.
func TestMeteredGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { goldenMetered(t, file) })
	}
}

func goldenMetered(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(bytes.TrimSpace(archive.Comment)) == 0 {
		t.Fatal("a golden file says on top why it exists")
	}
	var p policyOf
	got := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		switch {
		case f.Name == "policy.json":
			decoder := json.NewDecoder(bytes.NewReader(f.Data))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&p); err != nil {
				t.Fatal(err)
			}
			if _, ok := routes[p.Route]; !ok {
				t.Fatalf("no route %q", p.Route)
			}
			got.Files = append(got.Files, f)
		case strings.HasPrefix(f.Name, "request"):
			got.Files = append(got.Files, f, txtar.File{Name: strings.Replace(f.Name, "request", "want", 1), Data: result(f.Data, p)})
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, have := txtar.Format(archive), txtar.Format(got); !bytes.Equal(want, have) {
		t.Errorf("got\n%s\nwant\n%s", have, want)
	}
}

// result returns the part want of a request.
func result(data []byte, p policyOf) []byte {
	body := bytes.TrimSuffix(data, []byte("\n"))
	r, err := rewrite.ReadMetered(routes[p.Route], body)
	if err != nil {
		return fmt.Appendf(nil, "refused: %v\n", err)
	}
	r.MeterPolicy = p.Policy
	edits := r.Edits()
	var names []string
	for _, e := range edits {
		names = append(names, e.Name)
	}
	return fmt.Appendf(nil, "%s\nedits %q, hides usage %t, at most %+v\n", rewrite.ApplyEdits(nil, body, edits), names, r.HidesUsage(), r.Estimate(p.Prompt))
}
