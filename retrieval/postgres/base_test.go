package postgres_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"testing"
	"time"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/postgres"
)

// open returns a Server of a database.
func open(t testing.TB, address string, change func(*postgres.Options)) *postgres.Server {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	o := postgres.Options{Connection: engine.Connection{URL: []*url.URL{u}, User: u.User.Username(), Most: 8, Timeout: 30 * time.Second}}
	if change != nil {
		change(&o)
	}
	s, err := postgres.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// newBase returns a Server of a new database with some bases.
func newBase(t testing.TB, bases ...string) (*postgres.Server, string) {
	t.Helper()
	address := enginetest.Database(t)
	s := open(t, address, nil)
	for _, base := range bases {
		if err := s.Init(t.Context(), base); err != nil {
			t.Fatal(err)
		}
	}
	return s, address
}

// acquire returns a lease of a base that is released when the test ends.
func acquire(t testing.TB, s *postgres.Server, base string) engine.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), base, "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// document returns a document with a chunk for each text.
func document(id string, attributes map[string]any, texts ...string) engine.Document {
	if attributes == nil {
		attributes = map[string]any{}
	}
	text, err := json.Marshal(attributes)
	if err != nil {
		panic(err)
	}
	d := engine.Document{ID: id, Name: "Name of " + id, Source: id + ".md", Stamp: "1", Sum: sha256.Sum256([]byte(fmt.Sprint(id, texts))), Attributes: string(text)}
	counts := map[string]*engine.TermCount{}
	for i, text := range texts {
		terms := analysis.Terms(text)
		d.Words = append(d.Words, terms)
		d.Chunks = append(d.Chunks, engine.Chunk{Ordinal: i, Section: "Section", Text: text, Length: len(terms), Packed: engine.Pack(terms), Sketch: []byte{1, 2}, Tokens: `{"cl100k":3}`})
		for _, term := range slices.Compact(slices.Sorted(slices.Values(terms))) {
			if counts[term] == nil {
				counts[term] = &engine.TermCount{Text: term}
			}
			counts[term].Texts++
		}
		for _, term := range terms {
			counts[term].Total++
		}
	}
	for _, c := range counts {
		d.Terms = append(d.Terms, *c)
	}
	slices.SortFunc(d.Terms, func(a, b engine.TermCount) int { return cmpText(a.Text, b.Text) })
	return d
}

func cmpText(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// embed gives each chunk of a document a vector.
func embed(d *engine.Document, vector func(chunk int) []float32) {
	for i := range d.Chunks {
		d.Chunks[i].Vector = vector(i)
		key := sha256.Sum256([]byte(fmt.Sprint(d.ID, i, len(d.Chunks[i].Vector))))
		d.Chunks[i].VectorKey = key[:]
	}
}

// unit returns a random vector of unit length.
func unit(r *rand.Rand, dimensions int) []float32 {
	v, sum := make([]float32, dimensions), 0.0
	for i := range v {
		v[i] = float32(r.NormFloat64())
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

// write puts documents and commits them.
func write(t testing.TB, l engine.Lease, generation, space string, documents []engine.Document, deleted ...string) {
	t.Helper()
	if err := l.Put(t.Context(), documents, deleted); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(t.Context(), generation, space); err != nil {
		t.Fatal(err)
	}
}

// terms returns what a question searches for.
func terms(question string) []engine.Term {
	var list []engine.Term
	for _, term := range slices.Compact(slices.Sorted(slices.Values(analysis.Terms(question)))) {
		list = append(list, engine.Term{Text: term, Weight: 1})
	}
	return list
}

func search(t testing.TB, s *postgres.Server, q *engine.Search) *engine.Found {
	t.Helper()
	found, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// names returns the keys of candidates in the order of a rank.
func names(found *engine.Found, rank func(engine.Candidate) int) []string {
	var list []engine.Candidate
	for _, c := range found.Candidates {
		if rank(c) > 0 {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b engine.Candidate) int { return rank(a) - rank(b) })
	var out []string
	for _, c := range list {
		out = append(out, fmt.Sprintf("%s#%d", c.Doc, c.Ordinal))
	}
	return out
}

func byWords(c engine.Candidate) int  { return c.ByWords }
func byVector(c engine.Candidate) int { return c.ByVector }
