package knowledge_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// BenchmarkCompounds asks for one new compound in a base of a million words.
func BenchmarkCompounds(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	syllables := strings.Fields("ba kon de ex fi gra hu in jo ka lo mer no or pa qui re sta ter un ver wi zo ya zen tra ple ment tor son")
	word := func() string {
		var w strings.Builder
		for range 3 + r.IntN(5) {
			w.WriteString(syllables[r.IntN(len(syllables))])
		}
		return w.String()
	}
	var docs []chunk.Document
	var all []string
	for i := range 10_000 {
		var words []string
		for range 100 {
			words = append(words, word())
		}
		all = append(all, words...)
		docs = append(docs, chunk.Document{ID: fmt.Sprint(i), Text: strings.Join(words, " ") + " und der das ist"})
	}
	content, _, err := knowledge.FromDocuments(b.Context(), docs, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		b.Fatal(err)
	}
	base := knowledge.New("notes")
	base.Swap(content)
	for _, kind := range []string{"known", "compound", "unknown"} {
		b.Run(kind, func(b *testing.B) {
			knowledgetest.Measure(b, func(i int) {
				q := all[i*7919%len(all)]
				if kind == "compound" {
					q += all[i*104729%len(all)]
				}
				if kind == "unknown" {
					q = strings.Repeat(q, 1+40/len(q)) + "ment"
				}
				if _, err := base.Retrieve(b.Context(), retrieval.Query{Text: q, Settings: retrieval.DefaultSettings()}); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
