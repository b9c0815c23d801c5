package rewrite_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// A draw generates cases from a seed: rapid would take minutes for as many.
type draw struct{ *rand.Rand }

func pick[T any](d draw, of ...T) T { return of[d.IntN(len(of))] }

func (d draw) text(most int) string {
	var b strings.Builder
	for range d.IntN(most + 1) {
		b.WriteString(pick(d, hostile...))
	}
	return b.String()
}

func (d draw) body(t *testing.T) string {
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var messages []string
	for range 1 + d.IntN(3) {
		content := quoted(d.text(8))
		switch d.IntN(6) {
		case 0:
			content = "null"
		case 1:
			other := fmt.Sprintf(pick(d, `{"type":"image_url","image_url":{"url":%s}}`, `{"type":"refusal","refusal":%s}`, `{"type":"input_text","text":%s}`, `{"text":%s}`), quoted(d.text(4)))
			parts := []string{`{"type":"text","text":` + content + `}`, other, `{"type":"text","text":` + quoted(d.text(4)) + `}`}
			d.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			content = `[` + strings.Join(parts, ",") + `]`
		}
		messages = append(messages, fmt.Sprintf(`{"role":%q,"content":%s}`, pick(d, "system", "user", "user", "assistant"), content))
	}
	return `{"messages":[` + strings.Join(messages, ",") + `]}`
}

func (d draw) policy() rewrite.Policy {
	p := rewrite.DefaultPolicy()
	p.Knowledge = []string{"handbook"}
	p.Placement = pick(d, rewrite.PlaceSystem, rewrite.PlaceLastUser, rewrite.PlaceSplit, rewrite.PlaceMarker)
	p.ContextTokens = pick(d, 120, 250, 2000)
	p.MinTruncatedTokens = pick(d, 1, 10)
	p.Template = template(pick(d, "", "", "Asked: {{QUERY}}\n\n{{CONTEXT}}\n/end", "pre {{CONTEXT}}post"))
	p.Escape = pick(d, rewrite.EscapeTags, rewrite.EscapeAll)
	p.ComponentsFormat = pick(d, rewrite.ComponentsTags, rewrite.ComponentsHeadings)
	p.SourcesFormat = pick(d, rewrite.SourcesTags, rewrite.SourcesPlain)
	if d.IntN(3) == 0 {
		p.Components = []rewrite.Component{{Name: "c", Text: "x" + d.text(12), Priority: d.IntN(101), Truncatable: d.IntN(2) == 0}}
	}
	return p
}

func (d draw) sources() []retrieval.Source {
	sources := make([]retrieval.Source, 1+d.IntN(3))
	for i := range sources {
		sources[i] = retrieval.Source{
			Type: "rag", Knowledge: "handbook", Doc: fmt.Sprint(i), Name: d.text(2), Section: d.text(2),
			Text: strings.Repeat(d.text(8), pick(d, 1, 1, 6)), Before: d.text(3), After: d.text(3),
		}
	}
	return sources
}

// The sums of partial counts equal the counts of the whole, in 100,000 assemblies: each request
// is counted before and after the rewrite.
func TestAssembliesCountedWhole(t *testing.T) {
	t.Parallel()
	cases := 100_000
	if testing.Short() {
		cases = 2_000
	}
	seed := rand.Uint64()
	injected := 0
	for i := range uint64(cases) {
		d := draw{rand.New(rand.NewPCG(seed, i))}
		m := modelOf(t, pick(d, "o200k_base", "cl100k_base"))
		m.Estimated = d.IntN(8) == 0
		rw := rewrite.OneOfMany(&rewrite.Rewriter{Retriever: answering(d.sources()), Models: models{m}})
		req, err := chat.Completions.Parse([]byte(d.body(t)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := rw.Recounted(t.Context(), d.policy(), req)
		if err != nil {
			t.Fatalf("seed %d, case %d: %v\nbody %s\nout  %s", seed, i, err, req.Body, rewrite.ApplyEdits(nil, req.Body, res.Edits))
		}
		if res.Outcome == rewrite.Injected {
			injected++
		}
	}
	if injected < cases/2 {
		t.Fatalf("%d of %d cases were injected", injected, cases)
	}
}
