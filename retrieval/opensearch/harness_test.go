package opensearch_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/opensearch"
)

// onElasticsearch is the test that runs others against Elasticsearch.
const onElasticsearch = "TestOnElasticsearch"

// TestOnElasticsearch runs tests against Elasticsearch that run against OpenSearch otherwise. With
// -short it runs those of what the two do differently.
func TestOnElasticsearch(t *testing.T) {
	tests := map[string]func(*testing.T){
		"contract":           TestContract,
		"candidate":          TestCandidateHasWhatWasPut,
		"lease":              TestLease,
		"full disk":          TestFullDiskIsAnErrorAndShowsNothing,
		"recall":             TestFilteredVectorSearchFindsTheNearest,
		"others":             TestIndexOfOthersIsSearched,
		"others' filters":    TestFiltersOfAnIndexOfOthers,
		"others' neighbours": TestNeighboursInAnIndexOfOthers,
		"others' checks":     TestCheckNamesWhatAnIndexLacks,
		"refused filter":     TestRefusedFilter,
	}
	if !testing.Short() {
		maps.Copy(tests, map[string]func(*testing.T){
			"commit":             TestCommitMakesAllVisibleAtOnce,
			"vectors":            TestEndedChunksKeepTheirVectorsUntilCommit,
			"second server":      TestSecondServerSeesACommitWithItsNextSearch,
			"missing base":       TestBaseThatDoesNotExist,
			"passage":            TestPassageSampleVocabularyMeasures,
			"renewal":            TestLeaseIsRenewedDuringAPut,
			"repair":             TestCommitRepairsWhatAWriterWroteAfterItsLease,
			"dying writer":       TestWriterThatDiesLeavesNothingHalf,
			"others' generation": TestGenerationOfAnIndexOfOthersChangesWithIt,
			"long questions":     TestLongQuestions,
		})
	}
	for name, test := range tests {
		t.Run(name, test)
	}
}

func isElasticsearch(t testing.TB) bool { return strings.HasPrefix(t.Name(), onElasticsearch+"/") }

// address returns the address of the shared server that a test is for.
func address(t testing.TB) *url.URL {
	t.Helper()
	if isElasticsearch(t) {
		return enginetest.Elasticsearch(t)
	}
	return enginetest.OpenSearch(t)
}

// open returns a Server on the shared server, with a namespace of the test's own.
func open(t testing.TB) *opensearch.Server {
	t.Helper()
	return openAs(t, engine.Connection{URL: []*url.URL{address(t)}, Namespace: namespace(t)})
}

// namespace returns a prefix that no other test uses.
func namespace(t testing.TB) string {
	sum := sha256.Sum256([]byte(t.Name() + time.Now().String()))
	return fmt.Sprintf("t%x", sum[:6])
}

func openAs(t testing.TB, c engine.Connection) *opensearch.Server {
	t.Helper()
	c.Timeout = time.Minute
	s, err := opensearch.Open(opensearch.Options{Connection: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// write returns a lease on a base that it creates.
func write(t testing.TB, s *opensearch.Server, base string) engine.Lease {
	t.Helper()
	must(t, s.Init(t.Context(), base))
	l, err := s.Acquire(t.Context(), base, "test", time.Minute)
	must(t, err)
	t.Cleanup(func() { _ = l.Release(context.WithoutCancel(t.Context())) })
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// document returns a document with a chunk for each text. Words are separated by spaces.
func document(id string, texts ...string) engine.Document {
	d := engine.Document{ID: id, Name: "name of " + id, Source: id, Stamp: "1", Sum: sha256.Sum256([]byte(id)), Attributes: "{}"}
	counts := map[string]*engine.TermCount{}
	for i, text := range texts {
		words := strings.Fields(text)
		d.Words = append(d.Words, words)
		d.Chunks = append(d.Chunks, engine.Chunk{
			Ordinal: i, Section: fmt.Sprint("section ", i), Text: text, Length: len(words), Packed: engine.Pack(words), Tokens: `{"o200k":3}`,
			Sketch: []byte{1, 2, 3},
		})
		seen := map[string]bool{}
		for _, w := range words {
			c := counts[w]
			if c == nil {
				c = &engine.TermCount{Text: w}
				counts[w] = c
			}
			if c.Total++; !seen[w] {
				c.Texts++
			}
			seen[w] = true
		}
	}
	for _, c := range counts {
		d.Terms = append(d.Terms, *c)
	}
	slices.SortFunc(d.Terms, func(a, b engine.TermCount) int { return strings.Compare(a.Text, b.Text) })
	return d
}

// embedded gives the chunks of a document vectors.
func embedded(d engine.Document, vectors ...[]float32) engine.Document {
	for i := range d.Chunks {
		d.Chunks[i].Vector = vectors[i%len(vectors)]
		key := sha256.Sum256([]byte(d.Chunks[i].Text))
		d.Chunks[i].VectorKey = key[:]
	}
	return d
}

// unit returns a random vector of length 1, always the same for a seed.
func unit(seed uint64, dimensions int) []float32 {
	r := rand.New(rand.NewPCG(seed, binary.LittleEndian.Uint64([]byte("sidenote"))))
	v, sum := make([]float32, dimensions), 0.0
	for i := range v {
		x := r.NormFloat64()
		v[i], sum = float32(x), sum+x*x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func terms(texts ...string) []engine.Term {
	var out []engine.Term
	for _, t := range texts {
		out = append(out, engine.Term{Text: t, Weight: 1})
	}
	return out
}

// found returns the documents and ordinals of the candidates, sorted.
func found(t testing.TB, s *opensearch.Server, q *engine.Search) []string {
	t.Helper()
	if q.Depth == 0 {
		q.Depth = 100
	}
	f, err := s.Search(t.Context(), q)
	must(t, err)
	var ids []string
	for _, c := range f.Candidates {
		ids = append(ids, fmt.Sprintf("%s/%d", c.Doc, c.Ordinal))
	}
	slices.Sort(ids)
	return ids
}

// openLike returns another Server with the connection of one.
func openLike(t testing.TB, s *opensearch.Server) *opensearch.Server {
	t.Helper()
	return openAs(t, s.Connection())
}
