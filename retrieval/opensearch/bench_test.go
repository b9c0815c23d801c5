package opensearch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/opensearch"
)

// Sizes of the base that is measured: chunks of about 1 kB.
const (
	benchChunks     = 100_000
	benchDimensions = 384
	benchWords      = 150 // of a chunk
)

// zipf draws words with the frequencies of a language.
func zipf(seed uint64) func() string {
	r := rand.New(rand.NewPCG(seed, 1))
	z := rand.NewZipf(r, 1.07, 3, 100_000)
	return func() string { return fmt.Sprintf("w%05d", z.Uint64()) }
}

func benchDocument(i, chunks int) engine.Document {
	word := zipf(uint64(i))
	texts := make([]string, chunks)
	vectors := make([][]float32, chunks)
	for n := range texts {
		words := make([]string, benchWords)
		for j := range words {
			words[j] = word()
		}
		texts[n], vectors[n] = strings.Join(words, " "), unit(uint64(i*chunks+n), benchDimensions)
	}
	return embedded(document(fmt.Sprint("folder/file-", i, ".md"), texts...), vectors...)
}

// BenchmarkBase measures a base of 100,000 chunks: how fast it is written, and a search beside the two
// plain queries that it contains. SIDENOTE_TEST_OPENSEARCH should be a server with 1 GB of heap.
func BenchmarkBase(b *testing.B) {
	s := open(b)
	l := write(b, s, "b")
	began := time.Now()
	var asleep time.Duration // making the documents
	for i := 0; i < benchChunks/10; i += 50 {
		start := time.Now()
		var batch []engine.Document
		for j := range 50 {
			batch = append(batch, benchDocument(i+j, 10))
		}
		asleep += time.Since(start)
		must(b, l.Put(b.Context(), batch, nil))
	}
	put := time.Since(began) - asleep
	must(b, l.Commit(b.Context(), "aa", "m/384"))
	all := time.Since(began) - asleep
	b.Logf("put %d chunks in %.0f s (%.0f/s); with Commit %.0f s (%.0f/s)", benchChunks, put.Seconds(), benchChunks/put.Seconds(), all.Seconds(), benchChunks/all.Seconds())

	q := engine.Search{Bases: []string{"b"}, Depth: 100, Neighbours: 10}
	ask := func(i int) *engine.Search {
		word := zipf(uint64(1_000_000 + i))
		var words []string
		for range 8 {
			words = append(words, word())
		}
		slices.Sort(words)
		q.Terms, q.Vector = terms(slices.Compact(words)...), unit(uint64(2_000_000+i), benchDimensions)
		return &q
	}
	b.Run("search", func(b *testing.B) {
		measure(b, func(i int) {
			_, err := s.Search(b.Context(), ask(i))
			must(b, err)
		})
	})
	b.Run("plain", func(b *testing.B) {
		measure(b, func(i int) { plainQueries(b, s, ask(i)) })
	})
}

// measure reports the median duration and the CPU of this process.
func measure(b *testing.B, f func(i int)) {
	for i := range 20 {
		f(1000 + i)
	}
	var took []time.Duration
	before := knowledgetest.CPU(b)
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		f(i)
		took = append(took, time.Since(start))
	}
	cpu := knowledgetest.CPU(b) - before
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms/p99")
	b.ReportMetric(float64(cpu.Microseconds())/1000/float64(len(took)), "cpu-ms/op")
}

// plainQueries sends the two queries of a search one after the other, without filters, and reads the texts
// of their answers.
func plainQueries(b *testing.B, s *opensearch.Server, q *engine.Search) {
	b.Helper()
	clauses := []any{}
	for _, t := range q.Terms {
		clauses = append(clauses, map[string]any{"term": map[string]any{"words": t.Text}})
	}
	for _, query := range []any{
		map[string]any{"bool": map[string]any{"should": clauses}},
		map[string]any{"knn": map[string]any{"vector_384": map[string]any{"vector": q.Vector, "k": 100}}},
	} {
		body, err := json.Marshal(map[string]any{"size": 100, "_source": []string{"c.text"}, "query": query})
		must(b, err)
		c := s.Connection()
		resp, err := http.Post(c.URL[0].String()+"/"+c.Namespace+".b.chunks/_search", "application/json", bytes.NewReader(body))
		must(b, err)
		answer, err := io.ReadAll(resp.Body)
		must(b, err)
		_ = resp.Body.Close()
		var found struct {
			Hits struct {
				Hits []struct {
					Source struct{ C struct{ Text string } } `json:"_source"`
				}
			}
		}
		must(b, json.Unmarshal(answer, &found))
		if len(found.Hits.Hits) == 0 {
			b.Fatalf("%.300s", answer)
		}
	}
}
