package opensearch_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/opensearch"
)

// lines reads a file of JSON lines of a test collection stored beside the repository.
func lines[T any](t *testing.T, collection, name string) []T {
	t.Helper()
	f, err := os.Open(filepath.Join("../../../shared/ir", collection, name))
	if err != nil {
		t.Skipf("no test collection: %v", err)
	}
	defer func() { _ = f.Close() }()
	var all []T
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return all
		}
		var v T
		must(t, json.Unmarshal(line, &v))
		all = append(all, v)
	}
}

type irDocument struct {
	ID    string `json:"_id"`
	Title string
	Text  string
}

// fill writes documents in batches.
func fill(t testing.TB, l engine.Lease, documents []engine.Document) {
	t.Helper()
	for part := range slices.Chunk(documents, 200) {
		must(t, l.Put(t.Context(), part, nil))
	}
	must(t, l.Commit(t.Context(), "aa", "m/8"))
}

// TestCandidatesHaveTheBestByWords compares the candidates of a Depth of 100 with the 50 best by
// exact BM25 over the whole collection.
func TestCandidatesHaveTheBestByWords(t *testing.T) {
	for _, collection := range enginetest.Collections() {
		t.Run(collection, func(t *testing.T) {
			var documents []engine.Document
			for _, d := range lines[irDocument](t, collection, "corpus.jsonl") {
				documents = append(documents, worded(d.ID, analysis.Terms(d.Title+"\n"+d.Text)))
			}
			s := open(t)
			fill(t, write(t, s, "b"), documents)
			found, wanted := 0, 0
			queries := lines[irDocument](t, collection, "queries.jsonl")
			for _, q := range queries[:min(len(queries), 60)] {
				in, of := bestFound(t, s, documents, q.Text)
				found, wanted = found+in, wanted+of
			}
			recall := float64(found) / float64(wanted)
			t.Logf("%s: %.4f of the best 50", collection, recall)
			if recall < .99 {
				t.Errorf("recall %.4f, want .99", recall)
			}
		})
	}
}

// worded returns a document of one chunk with these terms.
func worded(id string, words []string) engine.Document {
	d := document(id, "x")
	d.Words[0], d.Chunks[0].Length, d.Chunks[0].Packed = words, len(words), engine.Pack(words)
	counts := map[string]int64{}
	for _, w := range words {
		counts[w]++
	}
	d.Terms = nil
	for w, n := range counts {
		d.Terms = append(d.Terms, engine.TermCount{Text: w, Texts: 1, Total: n})
	}
	return d
}

// bestFound returns how many of the best documents for a question are candidates.
func bestFound(t *testing.T, s *opensearch.Server, documents []engine.Document, question string) (in, of int) {
	t.Helper()
	var asked []engine.Term
	words := analysis.Terms(question)
	slices.Sort(words)
	for _, word := range words {
		if n := len(asked); n > 0 && asked[n-1].Text == word {
			asked[n-1].Weight++
			continue
		}
		asked = append(asked, engine.Term{Text: word, Weight: 1})
	}
	if len(asked) == 0 {
		return 0, 0
	}
	f, err := s.Search(t.Context(), &engine.Search{Bases: []string{"b"}, Terms: asked, Depth: 100})
	must(t, err)
	has := map[string]bool{}
	for _, c := range f.Candidates {
		has[c.Doc] = true
	}
	for _, id := range best(documents, asked, f, 50) {
		of++
		if has[id] {
			in++
		}
	}
	return in, of
}

// best returns the documents with the highest scores by BM25.
func best(documents []engine.Document, asked []engine.Term, f *engine.Found, n int) []string {
	type scored struct {
		id    string
		score float64
	}
	var all []scored
	st := f.States[0]
	mean := float64(st.Length) / float64(st.Chunks)
	for i := range documents {
		c, score := &documents[i].Chunks[0], 0.0
		for j, term := range asked {
			tf := float64(engine.Count(c.Packed, term.Text))
			with := float64(f.Counts[j][0].Texts)
			idf := math.Log(1 + (float64(st.Chunks)-with+.5)/(with+.5))
			score += term.Weight * idf * tf * 2.2 / (tf + 1.2*(.25+.75*float64(c.Length)/mean))
		}
		if score > 0 {
			all = append(all, scored{documents[i].ID, score})
		}
	}
	slices.SortFunc(all, func(a, b scored) int {
		if a.score > b.score {
			return -1
		}
		return 1
	})
	var ids []string
	for _, s := range all[:min(n, len(all))] {
		ids = append(ids, s.id)
	}
	return ids
}

// TestFilteredVectorSearchFindsTheNearest compares the nearest vectors under filters with an exact
// search.
func TestFilteredVectorSearchFindsTheNearest(t *testing.T) {
	n, dimensions, questions := 10_000, 32, uint64(20)
	if testing.Short() {
		n, questions = 2000, 8
	}
	documents := make([]engine.Document, n)
	vectors := make([][]float32, n)
	for i := range documents {
		vectors[i] = unit(uint64(i), dimensions)
		documents[i] = embedded(worded(fmt.Sprint(i), []string{"word"}), vectors[i])
		documents[i].Attributes = fmt.Sprintf(`{"n":%d}`, i%1000)
	}
	s := open(t)
	fill(t, write(t, s, "b"), documents)
	for _, part := range []int{1, 10, 100, 1000} { // thousandths of the documents
		f := &filter.Filter{Type: filter.Lt, Key: "n", Value: float64(part)}
		in, of := 0, 0
		for seed := range questions {
			question := unit(1_000_000+seed, dimensions)
			got := map[string]bool{}
			for _, id := range found(t, s, &engine.Search{Bases: []string{"b"}, Vector: question, Depth: 100, Filter: f}) {
				got[id] = true
			}
			for _, i := range nearest(vectors, question, 100, part) {
				of++
				if got[fmt.Sprint(i, "/0")] {
					in++
				}
			}
		}
		recall := float64(in) / float64(of)
		t.Logf("filter of %d/1000: recall %.4f", part, recall)
		if part <= 10 && recall < .99 || recall < .9 {
			t.Errorf("filter of %d/1000: recall %.4f", part, recall)
		}
	}
}

func nearest(vectors [][]float32, question []float32, most, part int) []int {
	var all []int
	for i := range vectors {
		if i%1000 < part {
			all = append(all, i)
		}
	}
	cosines := make([]float64, len(vectors))
	for _, i := range all {
		cosines[i] = dot(vectors[i], question)
	}
	slices.SortFunc(all, func(a, b int) int {
		if cosines[a] > cosines[b] {
			return -1
		}
		return 1
	})
	return all[:min(most, len(all))]
}
