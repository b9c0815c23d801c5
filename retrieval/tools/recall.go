package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"sidenote/retrieval"
)

// A Recalled is a passage that answers a question: consecutive chunks of a document.
type Recalled struct {
	retrieval.Passage
	Name, Section string // of its first chunk
	Text          string
	Relevance     float64 // of its best chunk, 0 to 10
}

// Path returns the path of its document, see File.Path.
func (r *Recalled) Path(as retrieval.Query) string { return path(as, r.Knowledge, r.Doc) }

// A Recollection is the result of Recall.
type Recollection struct {
	Passages []Recalled // best first
	Missing  []string   // paths of documents that do not exist, or not for this caller
	NoRoom   bool       // there were chunks, but not even a part of one fits
	Reason   retrieval.Reason
	Partial  bool
}

const (
	recallCandidates = 50   // chunks of a search to look at
	recallChunks     = 2000 // chunks of named documents to read
	leastPassage     = 120  // minimum length, in bytes, to which a chunk is cut
)

// A chunkOf is a scored chunk.
type chunkOf struct {
	retrieval.Source
	relevance float64
	score     float64 // BM25, for chunks of named documents
}

// Recall returns passages about a question from the documents named by paths, or from the results
// of a search if paths is empty. Adjacent chunks become one passage.
//
// size returns the size of a list of passages in the unit of room, which the result never exceeds.
// The first chunk that does not fit is cut to its sentences about the question.
func (k *Knowledge) Recall(ctx context.Context, as retrieval.Query, text string, paths []string, room int, size func([]Recalled) int) (Recollection, error) {
	var out Recollection
	var chunks []chunkOf
	var err error
	if len(paths) > 0 {
		chunks, out.Missing, err = k.named(ctx, as, text, paths)
	} else {
		var res retrieval.Result
		res, err = k.search(ctx, as, text, func(s *retrieval.Settings) {
			s.TopK, s.MaxPerDocument = recallCandidates, recallCandidates
		})
		out.Reason, out.Partial = res.Reason, res.Partial
		for i := range res.Sources {
			chunks = append(chunks, chunkOf{Source: res.Sources[i], relevance: 10 * res.Sources[i].Relevance})
		}
	}
	if err != nil {
		return out, err
	}
	out.Passages = k.fit(chunks, k.termsOf(text), room, size)
	out.NoRoom = len(chunks) > 0 && len(out.Passages) == 0
	return out, nil
}

// fit joins chunks, best first, as long as they fit.
func (k *Knowledge) fit(chunks []chunkOf, terms map[string]bool, room int, size func([]Recalled) int) []Recalled {
	// If the token counts of chunks are known, most need no counting.
	n, tokens := 0, 0
	for n < len(chunks) && chunks[n].Tokens > 0 && tokens+chunks[n].Tokens <= room {
		tokens += chunks[n].Tokens
		n++
	}
	passages := joined(chunks[:n])
	for ; n > 0 && size(passages) > room; passages = joined(chunks[:n]) {
		n--
	}
	for ; n < len(chunks); n++ {
		with := joined(chunks[:n+1])
		if size(with) > room {
			break
		}
		passages = with
	}
	if n == len(chunks) {
		return passages
	}
	// Fill the rest with the sentences of the next chunk about the question.
	last := chunks[n]
	for bytes := len(last.Text) * 3 / 4; bytes >= leastPassage; bytes = bytes * 3 / 4 {
		last.Text = k.window(chunks[n].Text, terms, bytes)
		if with := joined(append(slices.Clip(chunks[:n]), last)); size(with) <= room {
			return with
		}
	}
	return passages
}

// joined makes passages of chunks: consecutive chunks of a document become one, at the position of
// the best of them.
func joined(chunks []chunkOf) []Recalled {
	order := make([]int, len(chunks)) // by document and ordinal
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &chunks[i], &chunks[j]
		return cmp.Or(cmp.Compare(a.Knowledge, b.Knowledge), cmp.Compare(a.Doc, b.Doc), cmp.Compare(a.Chunk, b.Chunk))
	})
	type run struct {
		Recalled
		best int // index of its best chunk in chunks
	}
	var runs []run
	for _, i := range order {
		c := &chunks[i]
		if n := len(runs) - 1; n >= 0 && runs[n].Knowledge == c.Knowledge && runs[n].Doc == c.Doc && runs[n].End == c.Chunk {
			r := &runs[n]
			r.Text, r.End, r.Relevance, r.best = r.Text+"\n\n"+c.Text, c.Chunk+1, max(r.Relevance, c.relevance), min(r.best, i)
			continue
		}
		runs = append(runs, run{Recalled{
			retrieval.Passage{Knowledge: c.Knowledge, Doc: c.Doc, First: c.Chunk, End: c.Chunk + 1}, c.Name, c.Section, c.Text, c.relevance,
		}, i})
	}
	slices.SortFunc(runs, func(a, b run) int { return a.best - b.best })
	passages := make([]Recalled, len(runs))
	for i := range runs {
		passages[i] = runs[i].Recalled
	}
	return passages
}

// named reads documents by their paths, and orders their chunks by relevance to text.
func (k *Knowledge) named(ctx context.Context, as retrieval.Query, text string, paths []string) (chunks []chunkOf, missing []string, err error) {
	for _, p := range paths {
		list, err := k.document(ctx, as, p, recallChunks-len(chunks))
		if err != nil {
			return nil, nil, err
		}
		if len(list) == 0 {
			missing = append(missing, p)
		}
		for _, src := range list {
			if !slices.ContainsFunc(chunks, func(c chunkOf) bool { return c.Knowledge == src.Knowledge && c.Doc == src.Doc && c.Chunk == src.Chunk }) {
				chunks = append(chunks, chunkOf{Source: src})
			}
		}
	}
	k.weigh(chunks, text)
	return chunks, missing, nil
}

// document reads the first n chunks of a document by its path. If the path names no base, all
// bases are searched for the document, and several may have it.
func (k *Knowledge) document(ctx context.Context, as retrieval.Query, path string, n int) ([]retrieval.Source, error) {
	read := func(knowledge, doc string) ([]retrieval.Source, error) {
		list, err := k.Reader.Passage(ctx, as, retrieval.Passage{Knowledge: knowledge, Doc: doc, End: n})
		if err != nil && !errors.Is(err, retrieval.ErrNoHit) {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		return list, nil
	}
	if knowledge, doc, ok := strings.Cut(path, "/"); ok && slices.ContainsFunc(as.Bases, func(r retrieval.Ref) bool { return r.Knowledge == knowledge }) {
		if list, err := read(knowledge, doc); err != nil || len(list) > 0 {
			return list, err
		}
	}
	var all []retrieval.Source
	for _, base := range as.Bases {
		list, err := read(base.Knowledge, path)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all[:min(len(all), n)], nil
}

// The constants of BM25, with the values that its authors recommend (Robertson and Zaragoza, The
// Probabilistic Relevance Framework: BM25 and Beyond, 2009).
const (
	bm25K1 = 1.2
	bm25B  = 0.75
)

// weigh orders chunks by BM25, with statistics of these chunks. Their relevance is the share of
// the question's terms that they contain, weighted by idf.
func (k *Knowledge) weigh(chunks []chunkOf, text string) {
	wanted := k.termsOf(text)
	type counted struct {
		terms map[string]int
		total int
	}
	of, with, length := make([]counted, len(chunks)), map[string]int{}, 0
	for i := range chunks {
		of[i].terms = map[string]int{}
		for _, term := range k.Terms(chunks[i].Section + "\n" + chunks[i].Text) {
			of[i].total++
			if wanted[term] {
				of[i].terms[term]++
			}
		}
		for term := range of[i].terms {
			with[term]++
		}
		length += of[i].total
	}
	idf := func(term string) float64 {
		n := float64(with[term])
		return math.Log(1 + (float64(len(chunks))-n+0.5)/(n+0.5))
	}
	all := 0.0
	for term := range wanted {
		all += idf(term)
	}
	for i := range chunks {
		share := 0.0
		for term, n := range of[i].terms {
			weight, tf := idf(term), float64(n)
			share += weight
			chunks[i].score += weight * tf * (bm25K1 + 1) / (tf + bm25K1*(1-bm25B+bm25B*float64(of[i].total)*float64(len(chunks))/float64(max(1, length))))
		}
		if all > 0 {
			chunks[i].relevance = 10 * share / all
		}
	}
	slices.SortStableFunc(chunks, func(a, b chunkOf) int { return cmp.Compare(b.score, a.score) })
}
