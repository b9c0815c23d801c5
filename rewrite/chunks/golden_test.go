package chunks_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"sidenote/rewrite/chunks"
	"sidenote/rewrite/tokens"
)

var update = flag.Bool("update", false, "rewrite the want* parts of the golden files")

// A golden file holds chunks.json, optionally rules.json (Rules of a policy), and one or more
// context*.json. For each of those, want* is the result, counted with o200k_base.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	counter := encoding(t, "o200k_base")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, counter, file) })
	}
}

func golden(t *testing.T, counter tokens.Counter, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(bytes.TrimSpace(archive.Comment)) == 0 {
		t.Fatal("a golden file says on top why it exists")
	}
	given := map[string][]byte{}
	var kept []txtar.File
	for _, f := range archive.Files {
		given[f.Name] = f.Data
		if !strings.HasPrefix(f.Name, "want") {
			kept = append(kept, f)
		}
	}
	b := builder(t, counter, given["rules.json"])
	asked := 0
	for _, f := range kept[:len(kept):len(kept)] {
		suffix, ok := strings.CutPrefix(f.Name, "context")
		if !ok {
			continue
		}
		asked++
		want := txtar.File{Name: "want" + strings.TrimSuffix(suffix, ".json"), Data: []byte(outcome(b, given["chunks.json"], f.Data))}
		kept = append(kept, want)
		if diff := cmp.Diff(string(given[want.Name]), string(want.Data)); diff != "" && !*update {
			t.Errorf("%s (-want +got):\n%s", want.Name, diff)
		}
	}
	if asked == 0 {
		t.Fatal("no context*.json")
	}
	if *update {
		archive.Files = kept
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// encoding returns the counter of that name.
func encoding(t testing.TB, name string) tokens.Counter {
	t.Helper()
	e, err := tokens.New().Encoding(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// builder returns a Builder with the rules of a JSON list.
func builder(t *testing.T, counter tokens.Counter, list []byte) *chunks.Builder {
	t.Helper()
	b := &chunks.Builder{Counter: counter, MinTruncated: 10}
	if list == nil {
		return b
	}
	var rules []chunks.Rule
	if err := json.Unmarshal(list, &rules); err != nil {
		t.Fatalf("rules.json: %v", err)
	}
	for i := range rules {
		if err := rules[i].Check(); err != nil {
			t.Fatalf("rule %d: %v", i, err)
		}
		b.Renderers, b.Tags = append(b.Renderers, &rules[i]), append(b.Tags, rules[i].Tag)
	}
	return b
}

// outcome formats a result: messages, excluded chunks, and the count.
func outcome(b *chunks.Builder, list, context []byte) string {
	all, err := chunks.Parse(list)
	if err != nil {
		return err.Error() + "\n"
	}
	options, err := chunks.ParseOptions(context)
	if err != nil {
		return err.Error() + "\n"
	}
	r, err := b.Build(all, options)
	if err != nil {
		return err.Error() + "\n"
	}
	var out strings.Builder
	for _, m := range r.Messages {
		fmt.Fprintf(&out, "== %s, %d tokens: %s\n%s\n", m.Role, m.TokenCount, strings.Join(m.ChunkIDs, " "), m.Content)
	}
	fmt.Fprintf(&out, "== %d tokens, exact %t, included %s\n", r.TokenCount, r.Exact, strings.Join(r.Included, " "))
	for _, x := range r.Excluded {
		fmt.Fprintf(&out, "out %s: %s", x.ID, x.Reason)
		if x.Detail != "" {
			fmt.Fprintf(&out, " (%s)", x.Detail)
		}
		out.WriteByte('\n')
	}
	if r.Cut != "" {
		fmt.Fprintf(&out, "cut %s\n", r.Cut)
	}
	return out.String()
}
