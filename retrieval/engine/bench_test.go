package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/knowledge/chunk"
)

// canned answers every search with what another Server found once.
type canned struct {
	*enginetest.Memory
	found *engine.Found
}

func (c *canned) Search(ctx context.Context, s *engine.Search) (*engine.Found, error) {
	if c.found == nil {
		found, err := c.Memory.Search(ctx, s)
		if err != nil {
			return nil, err
		}
		c.found = found
	}
	f := *c.found
	f.Candidates = slices.Clone(f.Candidates)
	return &f, nil
}

// BenchmarkRetrieve measures what an Engine does with the candidates of a server, some 200 of about a
// kilobyte each: all that a search costs beyond the server, the network and the decoding.
func BenchmarkRetrieve(b *testing.B) {
	server := &canned{Memory: new(enginetest.Memory)}
	if err := server.Init(b.Context(), "b"); err != nil {
		b.Fatal(err)
	}
	v := &enginetest.Vectors{Dimensions: 64}
	w := engine.NewWriter(engine.WriterOptions{Server: server.Memory, Base: "b", Owner: "a benchmark", Deps: enginetest.Deps(), Passages: v})
	if _, err := w.Fill(b.Context(), benchDocuments(1000)); err != nil {
		b.Fatal(err)
	}
	e := engine.Open(engine.Options{
		Server: server, Name: "bench", Bases: []string{"b"}, Version: "test", Neutralise: func(_, text string) string { return text },
		Questions: v, Space: func(string) (retrieval.Space, bool) { return v.Space(), true },
	})
	defer func() { _ = e.Close() }()
	if err := e.Base("b").Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	q := retrieval.Query{Tenant: "t", Text: "how does w17 join w200 with w3999 and w12", Bases: []retrieval.Ref{e.Base("b").Ref()}, Settings: retrieval.DefaultSettings()}
	b.ReportAllocs()
	for b.Loop() {
		res, err := e.Retrieve(b.Context(), q)
		if err != nil || len(res.Sources) < 50 {
			b.Fatal(len(res.Sources), err)
		}
	}
	b.ReportMetric(float64(len(server.found.Candidates)), "candidates")
}

// benchDocuments returns documents of four chunks of words with the frequencies of a language.
func benchDocuments(n int) (docs []chunk.Document) {
	r := rand.New(rand.NewPCG(1, 2))
	words := rand.NewZipf(r, 1.1, 8, 20_000)
	for i := range n {
		var text strings.Builder
		for section := range 4 {
			fmt.Fprintf(&text, "\n## Section %d\n\n", section)
			for range 160 {
				fmt.Fprintf(&text, "w%d ", words.Uint64())
			}
		}
		docs = append(docs, chunk.Document{ID: fmt.Sprintf("%d.md", i), Markdown: true, Text: "# Page\n" + text.String()})
	}
	return docs
}
