package opensearch

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
)

// A search is one _msearch of several parts: the chunks by words, those by vector, the neighbours of
// the best of each, the statistics of the terms, and the states. The parts filter by the generations that
// this Server saw last. If the answer has newer ones, the search is sent again, which happens once
// per change.

const (
	// mostTries is how often a search is sent, while generations change each time.
	mostTries = 3
	// leastNearest is how many vectors at least are collected in each segment. Of 100 of 10,000 random
	// vectors, with 32 dimensions, .975 of the nearest are found by 100, and .991 by 200 in twice the
	// time; with a filter that a tenth of the chunks pass, or fewer, all are found by 100.
	leastNearest = 100
	// mostHits is the largest size of a search that servers accept by default.
	mostHits = 10_000
	// mostClauses is below the largest number of clauses that servers accept by default, 1024.
	mostClauses = 900
)

// Search finds candidates.
func (s *Server) Search(ctx context.Context, q *engine.Search) (*engine.Found, error) {
	for _, base := range q.Bases {
		if m, mapped := s.mappings[base]; mapped {
			return s.searchMapped(ctx, base, m, q)
		}
	}
	d, err := s.kind(ctx)
	if err != nil {
		return nil, err
	}
	states, err := s.known(ctx, q.Bases)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		a := newArms(s, d, q, states)
		found, seen, err := a.search(ctx)
		if err != nil {
			return nil, err
		}
		if seen == nil || try == mostTries {
			return found, nil
		}
		states = seen
	}
}

// arms are the parts of one search.
type arms struct {
	server  *Server
	dialect dialect
	q       *engine.Search
	states  []state
	visible []object // filters: the generation and the question's filter
	field   string   // of vectors; "" if no base has vectors of the question's dimensions

	body  bytes.Buffer
	parts []func(part) error // read the answers, in the order of the requests

	found *engine.Found
	index map[string]int // of candidates by hit.key
	newer []state        // of the bases, if one has a newer generation; else nil
}

func newArms(s *Server, d dialect, q *engine.Search, states []state) *arms {
	a := &arms{server: s, dialect: d, q: q, states: states, index: map[string]int{}, found: &engine.Found{}}
	a.visible = append(a.visible, visible(q.Bases, states))
	if q.Filter != nil {
		a.visible = append(a.visible, filterQuery(q.Filter))
	}
	for i, st := range states {
		a.found.States = append(a.found.States, st.public(q.Bases[i]))
	}
	for _, t := range q.Terms {
		counts := make([]engine.TermCount, len(q.Bases))
		for j := range counts {
			counts[j].Text = t.Text
		}
		a.found.Counts = append(a.found.Counts, counts)
	}
	return a
}

// visible returns the filter for the chunks that exist in the states' generations.
func visible(bases []string, states []state) object {
	existing := func(current int64) []object {
		return []object{
			{"range": object{"born": object{"lte": current}}},
			{"range": object{"died": object{"gt": current}}},
		}
	}
	if len(bases) == 1 {
		return object{"bool": object{"filter": existing(states[0].Current)}}
	}
	any := make([]object, len(bases))
	for i, base := range bases {
		any[i] = object{"bool": object{"filter": append(existing(states[i].Current), object{"term": object{"base": base}})}}
	}
	return object{"bool": object{"should": any, "minimum_should_match": 1}}
}

// search sends the parts and reads the answers. newer is not nil if a base has a newer generation.
func (a *arms) search(ctx context.Context) (found *engine.Found, newer []state, err error) {
	a.askWords()
	a.askVector()
	a.askCounts()
	a.askStates()
	return a.send(ctx)
}

func (a *arms) send(ctx context.Context) (found *engine.Found, newer []state, err error) {
	answer, err := a.server.client.call(ctx, "POST", "/_msearch?filter_path="+partsPath, a.body.Bytes())
	if err != nil {
		return nil, nil, fmt.Errorf("search: %w", err)
	}
	parts, err := parseParts(answer, len(a.parts))
	if missing(err) {
		a.server.remember(a.q.Bases, nil)
		return nil, nil, fmt.Errorf("search: %w: %w", engine.ErrNoBase, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("search: %w", err)
	}
	for i, read := range a.parts {
		if err := read(parts[i]); err != nil {
			return nil, nil, fmt.Errorf("search: %w", err)
		}
	}
	return a.found, a.newer, nil
}

// ask adds a part.
func (a *arms) ask(indexes []string, body object, read func(part) error) {
	header := object{"index": indexes}
	if len(indexes) > 1 { // one idf for all of them
		header["search_type"] = "dfs_query_then_fetch"
	}
	a.body.Write(append(mustJSON(header), '\n'))
	a.body.Write(append(mustJSON(body), '\n'))
	a.parts = append(a.parts, read)
}

func (a *arms) indexes(name func(string) string, has func(state) bool) []string {
	var names []string
	for i, base := range a.q.Bases {
		if has(a.states[i]) {
			names = append(names, name(base))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (a *arms) depth() int { return max(0, min(a.q.Depth, mostHits)) }

func written(st state) bool { return st.Chunks > 0 }

func (a *arms) askWords() {
	indexes := a.indexes(a.server.chunksOf, written)
	if len(a.q.Terms) == 0 || len(indexes) == 0 || a.depth() == 0 {
		return
	}
	query := wordsQuery(a.q.Terms, a.visible)
	a.ask(indexes, hits(object{"query": query}, a.depth(), "c", "v"), a.readWords)
	// By words, the few best are found in less time than the neighbours of all are read in. By vector
	// it is the other way round.
	if n := min(a.q.Neighbours, a.depth()); n > 0 {
		a.ask(indexes, hits(object{"query": query}, n, "n"), a.readNeighbours)
	}
}

// wordsQuery matches chunks that have one of the terms. Of very many terms those with most weight
// count.
func wordsQuery(terms []engine.Term, filters []object) object {
	if len(terms) > mostClauses {
		terms = slices.SortedStableFunc(slices.Values(terms), func(a, b engine.Term) int {
			switch {
			case a.Weight > b.Weight:
				return -1
			case a.Weight < b.Weight:
				return 1
			}
			return 0
		})[:mostClauses]
	}
	clauses := make([]object, len(terms))
	for i, t := range terms {
		clauses[i] = object{"term": object{"words": object{"value": wordOf(t.Text), "boost": t.Weight}}}
	}
	return object{"bool": object{"filter": filters, "should": clauses, "minimum_should_match": 1}}
}

func (a *arms) askVector() {
	n := len(a.q.Vector)
	indexes := a.indexes(a.server.chunksOf, func(st state) bool { return st.Embedded > 0 && st.Dimensions == n })
	if n == 0 || len(indexes) == 0 || a.depth() == 0 {
		return
	}
	nearest := a.dialect.nearest(vectorField(n), a.q.Vector, max(a.depth(), leastNearest), object{"bool": object{"filter": a.visible}})
	if a.dialect.rescores() {
		nearest["knn"].(object)["rescore_vector"] = object{"oversample": oversample}
	}
	fields := []string{"c"}
	if a.dialect.elastic {
		fields = append(fields, "v") // its scores are those of rounded vectors
	}
	if a.q.Neighbours > 0 {
		fields = append(fields, "n")
	}
	a.ask(indexes, hits(nearest, a.depth(), fields...), a.readNearest)
}

// hits completes the body of a search that returns size chunks with some of their fields.
func hits(query object, size int, fields ...string) object {
	body := object{"size": size, "track_total_hits": false, "_source": fields}
	for key, v := range query {
		body[key] = v
	}
	return body
}

func (a *arms) askCounts() {
	indexes := a.indexes(a.server.termsOf, written)
	if len(a.q.Terms) == 0 || len(indexes) == 0 {
		return
	}
	ids := make([]string, len(a.q.Terms))
	for i, t := range a.q.Terms {
		ids[i] = idOf(t.Text)
	}
	query := object{"query": object{"bool": object{"filter": object{"ids": object{"values": ids}}}}}
	a.ask(indexes, hits(query, min(len(ids)*len(indexes), mostHits), "*"), a.readCounts)
}

func (a *arms) askStates() {
	query := object{"query": object{"bool": object{"filter": object{"ids": object{"values": a.q.Bases}}}}}
	a.ask([]string{a.server.stateIndex()}, hits(query, len(a.q.Bases), "*"), a.readStates)
}

// Passage returns chunks of a document.
func (s *Server) Passage(ctx context.Context, base, doc string, first, end int, f *filter.Filter, _ string) ([]engine.Chunk, error) {
	if m, mapped := s.mappings[base]; mapped {
		return s.passageMapped(ctx, base, m, doc, first, end, f)
	}
	filters := []object{
		{"term": object{"doc": idOf(doc)}},
		{"range": object{"ordinal": object{"gte": first, "lt": end}}},
	}
	if f != nil {
		filters = append(filters, filterQuery(f))
	}
	size := max(0, min(end-first, mostHits))
	chunks, err := s.list(ctx, base, filters, size, "ordinal")
	return slices.DeleteFunc(chunks, func(c engine.Chunk) bool { return c.Doc != doc }), err
}

// Sample returns the n chunks with the lowest hashes of their ids.
func (s *Server) Sample(ctx context.Context, base string, n int) ([]engine.Chunk, error) {
	if m, mapped := s.mappings[base]; mapped {
		return s.sampleMapped(ctx, base, m, n)
	}
	return s.list(ctx, base, nil, max(0, min(n, mostHits)), "sample")
}

// list returns the visible chunks that match some filters, sorted by a field.
func (s *Server) list(ctx context.Context, base string, filters []object, size int, by string) ([]engine.Chunk, error) {
	states, err := s.known(ctx, []string{base})
	if err != nil {
		return nil, err
	}
	q := &engine.Search{Bases: []string{base}}
	for try := 1; ; try++ {
		a := newArms(s, dialect{}, q, states)
		if written(states[0]) {
			body := object{
				"query": object{"bool": object{"filter": append(slices.Clone(filters), a.visible...)}},
				"sort":  []object{{by: "asc"}},
			}
			a.ask([]string{s.chunksOf(base)}, hits(body, size, "c", "v"), a.readListed)
		}
		found, newer, err := a.search(ctx)
		if err != nil {
			return nil, err
		}
		if newer != nil && try < mostTries {
			states = newer
			continue
		}
		chunks := make([]engine.Chunk, len(found.Candidates))
		for i := range found.Candidates {
			chunks[i] = found.Candidates[i].Chunk
		}
		return chunks, nil
	}
}

// Vocabulary returns the most frequent terms.
func (s *Server) Vocabulary(ctx context.Context, base string, most int) ([]engine.TermCount, error) {
	if _, mapped := s.mappings[base]; mapped {
		return nil, nil
	}
	states, err := s.known(ctx, []string{base})
	if err != nil || !written(states[0]) {
		return nil, err
	}
	body := hits(object{"query": object{"match_all": object{}}, "sort": []object{{"texts": "desc"}, {"term": "asc"}}}, 0, "*")
	var terms []engine.TermCount
	for len(terms) < most {
		size := min(most-len(terms), mostHits)
		body["size"] = size
		page, err := s.page(ctx, s.termsOf(base), body)
		if err != nil {
			return nil, fmt.Errorf("vocabulary of %s: %w", base, err)
		}
		for _, h := range page.hits {
			count, err := termOf(h.source, states[0].Current)
			if err != nil {
				return nil, err
			}
			if count.Texts > 0 {
				terms = append(terms, count)
			}
		}
		if len(page.hits) < size {
			break
		}
		body["search_after"] = page.hits[size-1].sortValues()
	}
	return terms, nil
}
