package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sidenote/retrieval/engine"
)

// Search finds candidates. All bases must be of Sidenote's schema, or one table of others.
func (s *Server) Search(ctx context.Context, q *engine.Search) (*engine.Found, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	for _, base := range q.Bases {
		if s.tables[base] == nil {
			continue
		}
		if len(q.Bases) > 1 {
			return nil, fmt.Errorf("postgres: base %q is a table of others, which is not searched together with other bases", base)
		}
		return s.searchTable(ctx, q)
	}
	found, err := s.search(ctx, q)
	if err == nil && found == nil { // a base was dropped and created again
		s.forget(q.Bases)
		found, err = s.search(ctx, q)
	}
	if isMissing(err) {
		s.forget(q.Bases)
		err = fmt.Errorf("%w: %w", engine.ErrNoBase, err)
	}
	if err == nil && found == nil {
		err = fmt.Errorf("postgres: bases %q: %w", q.Bases, engine.ErrNoBase)
	}
	return found, err
}

// search returns nil if a base is not there under its known number. Bases that do not exist have
// the zero state, but one must exist.
func (s *Server) search(ctx context.Context, q *engine.Search) (*engine.Found, error) {
	ids, err := s.existing(ctx, q.Bases)
	if err != nil {
		return nil, err
	}
	place := map[int]int{}
	for i, id := range ids {
		if id != 0 {
			place[id] = i
		}
	}
	b := newSearchSQL(s, slices.Sorted(maps.Keys(place)), q)
	var found *engine.Found
	seen := 0
	err = s.read(ctx, q.Tenant, []statement{b.settings(), b.states(), b.candidates()},
		func() { found, seen = newFound(q), 0 },
		func(i int, r *row) {
			switch i {
			case 1:
				s.readCounts(found, q, place, r)
				seen++
			case 2:
				found.Candidates = append(found.Candidates, readCandidate(place, r))
			}
		})
	if err != nil || seen < len(place) {
		return nil, err
	}
	return found, nil
}

func newFound(q *engine.Search) *engine.Found {
	found := &engine.Found{
		States: zeroStates(q.Bases), Counts: make([][]engine.TermCount, len(q.Terms)),
		Candidates: make([]engine.Candidate, 0, 2*q.Depth),
	}
	for i, term := range q.Terms {
		found.Counts[i] = make([]engine.TermCount, len(q.Bases))
		for j := range found.Counts[i] {
			found.Counts[i][j].Text = term.Text
		}
	}
	return found
}

// readCounts reads the state of a base and how common the terms are there.
func (s *Server) readCounts(found *engine.Found, q *engine.Search, place map[int]int, r *row) {
	j, ok := place[r.count()]
	if !ok {
		r.fail("an unknown base")
		return
	}
	found.States[j] = s.readState(q.Bases[j], r)
	texts, totals := r.integers(), r.integers()
	if len(texts) != len(q.Terms) || len(totals) != len(q.Terms) {
		r.fail("counts of %d and %d terms, not %d", len(texts), len(totals), len(q.Terms))
		return
	}
	for i := range q.Terms {
		found.Counts[i][j].Texts, found.Counts[i][j].Total = int(max(0, texts[i])), max(0, totals[i])
	}
}

func readCandidate(place map[int]int, r *row) engine.Candidate {
	base, ok := place[r.count()]
	if !ok {
		r.fail("an unknown base")
	}
	return engine.Candidate{
		Base: base, ByWords: r.count(), ByVector: r.count(), Cosine: r.float(), Chunks: r.count(), AllLengths: r.integer(),
		Chunk: engine.Chunk{
			Doc: r.text(), Ordinal: r.count(), Name: r.text(), Section: r.text(), Text: r.text(), Before: r.text(), After: r.text(),
			Attributes: r.text(), Tokens: r.text(), Sketch: r.blob(), Length: r.count(), Packed: r.blob(),
		},
	}
}

// The bounds of the work of a search, in chunks. A chunk takes 4 µs of the server to rank.
const (
	// mostRanked bounds the chunks with one of the rarest terms of a question. The other terms only
	// add to the scores of these, unless they are few. Among 100,000 chunks of words as frequent as
	// in English, all of the 50 best by seven terms were found with 10,000, and 99% with 5,000.
	mostRanked = 8_000
	// fewRanked is how many chunks for each candidate are enough. With fewer, those with two of the
	// more common terms are ranked too.
	fewRanked = 10
	// mostPaired is the number of more common terms that are combined in pairs.
	mostPaired = 5
	// hardRanked bounds the chunks that are ranked in a base, whatever the statistics said.
	hardRanked = 60_000
	// mostExact bounds the chunks among which all vectors are compared, where a filter leaves few: the
	// index would be searched for long until it found enough of them.
	mostExact = 5_000
)

// hnswFactor is the number of neighbours that a scan of the index considers for each that it
// returns, and the most that pgvector allows.
const (
	hnswFactor = 2
	hnswMost   = 1000
	hnswTuples = 40_000 // after which a scan ends although a filter rejected most
)

// searchSQL builds the statements of a search. Numbers are written into them, as the planner must
// know them; all else is a parameter.
type searchSQL struct {
	s       *Server
	q       *engine.Search
	ids     []int
	vectors extension
	where   string // condition of the filter on documents d; "" without
}

func newSearchSQL(s *Server, ids []int, q *engine.Search) *searchSQL {
	return &searchSQL{s: s, q: q, ids: ids, vectors: s.pgvector()}
}

// restricted reports whether documents may be invisible although they are of the current generation.
func (b *searchSQL) restricted() bool { return b.q.Filter != nil || b.s.options.TenantAs != "" }

// byVector reports whether the search has candidates by vector.
func (b *searchSQL) byVector() bool { return len(b.q.Vector) > 0 && b.vectors.schema != "" }

// all returns the numbers of the bases as an SQL list.
func (b *searchSQL) all() string {
	var list []string
	for _, id := range b.ids {
		list = append(list, strconv.Itoa(id))
	}
	return strings.Join(list, ", ")
}

// settings sets how the index of vectors is searched.
func (b *searchSQL) settings() statement {
	if !b.byVector() {
		return statement{sql: "select 1"}
	}
	ef := min(hnswMost, max(40, hnswFactor*b.q.Depth))
	sql := fmt.Sprintf("select set_config('hnsw.ef_search', '%d', true)", ef)
	if b.vectors.iterative {
		sql += fmt.Sprintf(", set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.max_scan_tuples', '%d', true)", hnswTuples)
	}
	return statement{sql: sql}
}

// states reads the states of the bases with the counts of the terms.
func (b *searchSQL) states() statement {
	texts := make([]string, len(b.q.Terms))
	for i, term := range b.q.Terms {
		texts[i] = term.Text
	}
	return statement{`select b.id, ` + stateColumns + `, n.texts, n.totals from ` + b.s.schema + `.bases b
cross join lateral (
  select array_agg(coalesce(t.texts, 0) order by q.place) as texts, array_agg(coalesce(t.total, 0) order by q.place) as totals
  from unnest($1::text[]) with ordinality q(term, place) left join ` + b.s.schema + `.terms t on t.base = b.id and t.term = q.term) n
where b.id in (` + b.all() + `)`, []any{texts}}
}

// candidates finds the best by words and by vector, and reads them.
func (b *searchSQL) candidates() statement {
	var args arguments
	parts := []string{b.baseCTE()}
	var hits []string
	if b.restricted() {
		parts = append(parts, b.matching(&args)...)
	}
	if len(b.q.Terms) > 0 {
		parts = append(parts, b.wordParts(&args)...)
		hits = append(hits, "select base, doc, ordinal, place as words, null::bigint as vector from by_words")
	}
	vector := ""
	if b.byVector() {
		vector = args.add(b.q.Vector) + "::real[]::" + b.vectors.schema + ".vector"
		parts = append(parts, b.vectorParts(vector)...)
		hits = append(hits, "select base, doc, ordinal, null::bigint as words, place as vector from by_vector")
	}
	if len(hits) == 0 {
		return statement{sql: "select 1 where false"}
	}
	parts = append(parts, "hit as materialized (select base, doc, ordinal, min(words) as words, min(vector) as vector from (\n"+
		strings.Join(hits, "\nunion all\n")+") h group by base, doc, ordinal)")
	return statement{"with " + strings.Join(parts, ",\n") + "\n" + b.payload(vector), args}
}

func (b *searchSQL) baseCTE() string {
	return "base as materialized (select id, current, chunks, length from " + b.s.schema + ".bases where id in (" + b.all() + "))"
}

// current is the generation of a base.
func (b *searchSQL) current(id int) string {
	return fmt.Sprintf("(select current from base where id = %d)", id)
}

// visible is true for documents d of a base that are visible.
func (b *searchSQL) visible(id int) string {
	now := b.current(id)
	return "d.born <= " + now + " and (d.died is null or d.died > " + now + ")"
}

// matching selects, in each base, the documents that a filter leaves, and tells whether they are
// few enough to look at each of their chunks.
func (b *searchSQL) matching(args *arguments) []string {
	b.where = condition(b.q.Filter, "d.filterable", args)
	var parts []string
	for _, id := range b.ids {
		parts = append(parts,
			fmt.Sprintf("matching_%d as materialized (select d.key, d.chunks from %s.documents d where d.base = %d and d.chunks > 0 and %s and %s limit %d)",
				id, b.s.schema, id, b.visible(id), b.where, mostExact+1),
			fmt.Sprintf("few_%d as materialized (select coalesce(sum(chunks), 0) <= %d as yes from matching_%d)", id, mostExact, id))
	}
	return parts
}

// restriction is the condition of the filter, after others.
func (b *searchSQL) restriction() string {
	if b.where == "" {
		return ""
	}
	return " and " + b.where
}
