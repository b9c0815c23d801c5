package chunks_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sidenote/rewrite/chunks"
	"sidenote/rewrite/goldentest"
	"sidenote/rewrite/tokens"
)

// A golden file holds chunks.json, optionally rules.json (Rules of a policy), and one or more
// context*.json. For each of those, want* is the result, counted with o200k_base.
func TestGolden(t *testing.T) {
	counter := encoding(t, "o200k_base")
	goldentest.Each(t, "testdata", func(t *testing.T, a *goldentest.Archive) {
		b := builder(t, counter, a.Get("rules.json"))
		for _, f := range a.Files {
			if suffix, ok := strings.CutPrefix(f.Name, "context"); ok {
				a.Set("want"+strings.TrimSuffix(suffix, ".json"), outcome(b, a.Get("chunks.json"), f.Data))
			}
		}
	})
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
