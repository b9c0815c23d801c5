package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/postgres"
)

// The benchmarks' base: 100,000 chunks of about 1 kB, ten a document, whose words are as frequent
// as those of a language.
const (
	benchChunks     = 100_000
	benchChunksOf   = 10
	benchWords      = 150
	benchDimensions = 384
	benchBatch      = 50 // documents of a Put
)

// A corpus makes documents of random words.
type corpus struct {
	r       *rand.Rand
	words   *rand.Zipf
	centres [][]float32
}

func newCorpus() *corpus {
	r := rand.New(rand.NewPCG(1, 2))
	c := &corpus{r: r, words: rand.NewZipf(r, 1.1, 20, 200_000)}
	for range 300 {
		c.centres = append(c.centres, unit(r, benchDimensions))
	}
	return c
}

func (c *corpus) word() string { return "w" + strconv.FormatUint(c.words.Uint64(), 36) }

func (c *corpus) vector() []float32 {
	v := slices.Clone(c.centres[c.r.IntN(len(c.centres))])
	for i, x := range unit(c.r, benchDimensions) {
		v[i] = (v[i] + x) / 1.4142
	}
	return v
}

// documents returns the next documents with n chunks in all.
func (c *corpus) documents(first, n int) []engine.Document {
	var list []engine.Document
	for i := range n / benchChunksOf {
		var d engine.Document
		d.ID, d.Name, d.Source, d.Stamp = fmt.Sprint("doc", first+i), "Name", "file", "1"
		d.Attributes = fmt.Sprintf(`{"audience":"a%d","number":%d}`, (first+i)%100, (first+i)%1000)
		counts := map[string]*engine.TermCount{}
		for range benchChunksOf {
			words := make([]string, benchWords)
			for j := range words {
				words[j] = c.word()
			}
			c.count(counts, words)
			d.Words = append(d.Words, words)
			text := strings.Join(words, " ") + strings.Repeat(" and so on", 40)
			d.Chunks = append(d.Chunks, engine.Chunk{Text: text, Length: len(words), Packed: engine.Pack(words), Sketch: make([]byte, 64), Tokens: `{"o200k":250}`})
		}
		embed(&d, func(int) []float32 { return c.vector() })
		for _, t := range counts {
			d.Terms = append(d.Terms, *t)
		}
		slices.SortFunc(d.Terms, func(a, b engine.TermCount) int { return strings.Compare(a.Text, b.Text) })
		list = append(list, d)
	}
	return list
}

func (c *corpus) count(counts map[string]*engine.TermCount, words []string) {
	seen := map[string]bool{}
	for _, w := range words {
		if counts[w] == nil {
			counts[w] = &engine.TermCount{Text: w}
		}
		counts[w].Total++
		if !seen[w] {
			counts[w].Texts++
		}
		seen[w] = true
	}
}

// fill writes the benchmarks' base and returns the time of its Puts.
func (c *corpus) fill(b testing.TB, s *postgres.Server, timed func(put func())) {
	l := acquire(b, s, "a")
	per := benchBatch * benchChunksOf
	for first := 0; first < benchChunks; first += per {
		documents := c.documents(first/benchChunksOf, per)
		timed(func() {
			if err := l.Put(b.Context(), documents, nil); err != nil {
				b.Fatal(err)
			}
		})
	}
	timed(func() {
		if err := l.Commit(b.Context(), "aa", "model/384"); err != nil {
			b.Fatal(err)
		}
	})
}
