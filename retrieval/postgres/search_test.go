package postgres_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/postgres"
)

// lines reads a file of JSON objects of a test collection, or skips the test.
func lines(t testing.TB, collection, name string) []map[string]string {
	t.Helper()
	file, err := os.Open(filepath.Join("../../../shared/ir", collection, name))
	if err != nil {
		t.Skipf("the test collections are not here: %v", err)
	}
	defer func() { _ = file.Close() }()
	var list []map[string]string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var object map[string]string
		if err := json.Unmarshal(scanner.Bytes(), &object); err != nil {
			t.Fatal(err)
		}
		list = append(list, object)
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// The best 50 by BM25 over the whole collection are among 100 candidates, in one base and in two
// that are ranked as one.
func TestBestByWordsAreCandidates(t *testing.T) {
	for _, collection := range enginetest.Collections() {
		t.Run(collection, func(t *testing.T) {
			corpus, queries := lines(t, collection, "corpus.jsonl"), lines(t, collection, "queries.jsonl")
			s, _ := newBase(t, "one", "two")
			halves := map[string][]engine.Document{}
			for i, text := range corpus {
				base := []string{"one", "two"}[i%2]
				halves[base] = append(halves[base], document(text["_id"], nil, text["title"]+"\n"+text["text"]))
			}
			for base, documents := range halves {
				write(t, acquire(t, s, base), "aa", "", documents)
			}
			exact := newExact(halves["one"], halves["two"])
			found, wanted := 0, 0
			for _, q := range queries[:min(100, len(queries))] {
				best := exact.best(terms(q["text"]), 50)
				got := search(t, s, &engine.Search{Bases: []string{"one", "two"}, Terms: terms(q["text"]), Depth: 100})
				for _, c := range got.Candidates {
					if slices.Contains(best, c.Doc) {
						found++
					}
				}
				wanted += len(best)
			}
			recall := float64(found) / float64(wanted)
			t.Logf("recall %.4f of %d", recall, wanted)
			if recall < .99 {
				t.Errorf("recall %.4f of %d, want .99", recall, wanted)
			}
		})
	}
}

// exactRank ranks all chunks by BM25.
type exactRank struct {
	documents []engine.Document
	texts     map[string]int
	length    int
}

func newExact(parts ...[]engine.Document) *exactRank {
	e := &exactRank{documents: slices.Concat(parts...), texts: map[string]int{}}
	for _, d := range e.documents {
		for _, term := range d.Terms {
			e.texts[term.Text] += term.Texts
		}
		e.length += d.Chunks[0].Length
	}
	return e
}

func (e *exactRank) best(terms []engine.Term, n int) []string {
	type scored struct {
		id    string
		score float64
	}
	var list []scored
	count, mean := float64(len(e.documents)), float64(e.length)/float64(len(e.documents))
	for _, d := range e.documents {
		score := 0.0
		for _, term := range terms {
			tf, df := float64(engine.Count(d.Chunks[0].Packed, term.Text)), float64(e.texts[term.Text])
			score += math.Log(1+(count-df+.5)/(df+.5)) * tf * 2.2 / (tf + 1.2*(.25+.75*float64(d.Chunks[0].Length)/mean))
		}
		if score > 0 {
			list = append(list, scored{d.ID, score})
		}
	}
	slices.SortFunc(list, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.id, b.id)) })
	var ids []string
	for _, s := range list[:min(n, len(list))] {
		ids = append(ids, s.id)
	}
	return ids
}

const dimensions = 32

// clustered returns a vector near one of some centres, as embeddings of texts are.
func clustered(r *rand.Rand, centres [][]float32) []float32 {
	v, noise := slices.Clone(centres[r.IntN(len(centres))]), unit(r, dimensions)
	sum := 0.0
	for i := range v {
		v[i] += noise[i]
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

// The nearest vectors are candidates, in all of a base, under filters that leave most, few and very
// few of it, and in a small base beside a large one.
func TestNearestAreCandidates(t *testing.T) {
	s, _ := newBase(t, "large", "small")
	r := rand.New(rand.NewPCG(1, 2))
	var centres [][]float32
	for range 30 {
		centres = append(centres, unit(r, dimensions))
	}
	bases := map[string][]engine.Document{}
	large, questions := 6000, 20
	if testing.Short() {
		large, questions = 2200, 6 // also with an index
	}
	for base, n := range map[string]int{"large": large, "small": 100} {
		for i := range n {
			d := document(fmt.Sprint(base, i), map[string]any{"percent": float64(i % 100), "tag": fmt.Sprint("t", i%100)}, fmt.Sprintf("text %d", i%7))
			embed(&d, func(int) []float32 { return clustered(r, centres) })
			bases[base] = append(bases[base], d)
		}
		write(t, acquire(t, s, base), "aa", "model", bases[base])
	}
	for name, f := range map[string]*filter.Filter{
		"all":          nil,
		"90 %":         {Type: filter.Lt, Key: "percent", Value: 90.},
		"10 %":         {Type: filter.Lt, Key: "percent", Value: 10.},
		"1 %":          {Type: filter.Eq, Key: "tag", Value: "t7"},
		"1 %, ordered": {Type: filter.Lt, Key: "percent", Value: 1.},
		"nothing":      {Type: filter.Lt, Key: "percent", Value: -1.},
	} {
		for _, searched := range [][]string{{"large"}, {"small", "large"}} {
			found, wanted, allowed := 0, 0, matching(f, bases, searched)
			for range questions {
				question := clustered(r, centres)
				best := nearest(question, 50, allowed)
				got := names(search(t, s, &engine.Search{Bases: searched, Vector: question, Depth: 50, Filter: f}), byVector)
				for _, name := range got {
					if slices.Contains(best, name) {
						found++
					}
				}
				wanted += len(best)
			}
			if float64(found) < .99*float64(wanted) || name == "all" && wanted == 0 {
				t.Errorf("%s of %q: %d of %d", name, searched, found, wanted)
			}
		}
	}
	checkIndexed(t, s)
}

// checkIndexed tests that the bases are in the state that the test is about.
func checkIndexed(t *testing.T, s *postgres.Server) {
	t.Helper()
	if trouble := s.Trouble(); len(trouble) > 0 {
		t.Errorf("trouble: %q", trouble)
	}
}

// matching returns the documents of bases that match a filter.
func matching(f *filter.Filter, bases map[string][]engine.Document, searched []string) (list []*engine.Document) {
	for _, base := range searched {
		for i := range bases[base] {
			d := &bases[base][i]
			var attributes map[string]any
			if err := json.Unmarshal([]byte(d.Attributes), &attributes); err != nil {
				panic(err)
			}
			if f.Match(attributes) {
				list = append(list, d)
			}
		}
	}
	return list
}

func nearest(question []float32, n int, documents []*engine.Document) []string {
	type near struct {
		name   string
		cosine float64
	}
	var list []near
	for _, d := range documents {
		sum := 0.0
		for i, v := range d.Chunks[0].Vector {
			sum += float64(v) * float64(question[i])
		}
		list = append(list, near{d.ID + "#0", sum})
	}
	slices.SortFunc(list, func(a, b near) int { return cmp.Compare(b.cosine, a.cosine) })
	var out []string
	for _, l := range list[:min(n, len(list))] {
		out = append(out, l.name)
	}
	return out
}

// Another model's vectors are written beside the visible ones, which are searched until the commit.
func TestModelChanges(t *testing.T) {
	s, _ := newBase(t, "a")
	l := acquire(t, s, "a")
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{8, 4} {
		var documents []engine.Document
		for i := range 2100 {
			d := document(fmt.Sprint("doc", i), nil, fmt.Sprint("text ", i))
			embed(&d, func(int) []float32 { return unit(r, size) })
			documents = append(documents, d)
		}
		if err := l.Put(t.Context(), documents, nil); err != nil {
			t.Fatal(err)
		}
		if size == 4 {
			checkDimensions(t, s, r, 8)
		}
		if err := l.Commit(t.Context(), fmt.Sprint(size), fmt.Sprint("model/", size)); err != nil {
			t.Fatal(err)
		}
		checkDimensions(t, s, r, size)
	}
}

// checkDimensions tests that vectors of a size find chunks, and others none.
func checkDimensions(t *testing.T, s *postgres.Server, r *rand.Rand, size int) {
	t.Helper()
	for _, asked := range []int{4, 8, 16} {
		found := search(t, s, &engine.Search{Bases: []string{"a"}, Vector: unit(r, asked), Depth: 20})
		want := 0
		if asked == size {
			want = 20
		}
		if len(found.Candidates) != want || found.States[0].Dimensions != size {
			t.Errorf("%d dimensions: %d candidates, want %d; state %+v", asked, len(found.Candidates), want, found.States[0])
		}
	}
}
