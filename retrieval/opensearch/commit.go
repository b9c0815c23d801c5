package opensearch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"sidenote/retrieval/engine"
)

// Commit makes what was put visible. The counts of terms that it writes first hold the counts of
// both generations, so they too change with the state document.
func (l *lease) Commit(ctx context.Context, generation, space string) error {
	if err := l.prepare(ctx); err != nil {
		return err
	}
	if err := l.refresh(ctx, l.server.chunksOf(l.base), l.server.termsOf(l.base)); err != nil {
		return err
	}
	sum, err := l.sum(ctx)
	if err != nil {
		return err
	}
	if err := l.verify(ctx, sum.state); err != nil {
		return err
	}
	if err := l.writeTerms(ctx, sum.terms); err != nil {
		return fmt.Errorf("put terms: %w", err)
	}
	if err := l.refresh(ctx, l.server.termsOf(l.base)); err != nil {
		return err
	}
	st := sum.state
	if space == "" {
		st.Dimensions = 0
	}
	return l.hold(ctx, object{
		"current": l.state.Next, "next": l.state.Next + 1, "generation": generation, "space": space, "dimensions": st.Dimensions,
		"documents": st.Documents, "chunks": st.Chunks, "bytes": st.Bytes, "length": st.Length, "distinct": st.Distinct,
		"embedded": st.Embedded,
	})
}

// A sum is the state after a Commit, and the difference of the counts of terms.
type sum struct {
	state state
	terms map[string]*engine.TermCount
}

// sum adds up what the next generation changes.
func (l *lease) sum(ctx context.Context) (*sum, error) {
	s := &sum{state: l.state, terms: map[string]*engine.TermCount{}}
	query := object{"range": object{"born": object{"gt": l.state.Current}}}
	for r, err := range l.scan(ctx, l.server.documentsOf(l.base), query) {
		if err != nil {
			return nil, err
		}
		if err := l.keep(ctx); err != nil {
			return nil, err
		}
		if v := r.visible(l.state.Current); v != nil {
			s.add(v, -1)
		}
		if v := r.visible(l.state.Next); v != nil {
			s.add(v, 1)
		}
	}
	return s, nil
}

// add adds a version of a document, or subtracts it.
func (s *sum) add(v *version, sign int) {
	st := &s.state
	st.Documents += sign
	st.Chunks += sign * v.Chunks
	st.Embedded += sign * v.Embedded
	st.Bytes += int64(sign) * v.Bytes
	st.Length += uint64(sign) * v.Length
	st.Distinct += uint64(sign) * v.Distinct
	if sign > 0 && v.Embedded > 0 {
		st.Dimensions = v.Dimensions
	}
	for i, t := range v.Terms {
		c := s.terms[t]
		if c == nil {
			c = &engine.TermCount{}
			s.terms[t] = c
		}
		if i < len(v.Texts) && i < len(v.Total) {
			c.Texts += sign * v.Texts[i]
			c.Total += int64(sign) * v.Total[i]
		}
	}
}

// A termDoc is what .terms holds of a term: its counts, and those before the generation Born.
type termDoc struct {
	Base     string `json:"base"`
	Term     string `json:"term"`
	Texts    int    `json:"texts"`
	Total    int64  `json:"total"`
	Born     int64  `json:"born"`
	OldTexts int    `json:"old_texts"`
	OldTotal int64  `json:"old_total"`
}

// writeTerms adds differences to the counts of terms. Counts that a Commit wrote which did not come to its end are
// computed anew.
func (l *lease) writeTerms(ctx context.Context, differences map[string]*engine.TermCount) error {
	if err := l.addUnfinished(ctx, differences); err != nil {
		return err
	}
	b := l.bulk(l.server.termsOf(l.base))
	for part := range slices.Chunk(sortedKeys(differences), 2000) {
		ids := make([]string, len(part))
		for i, t := range part {
			ids[i] = idOf(t)
		}
		body, err := l.server.client.call(ctx, "POST", "/"+l.server.termsOf(l.base)+"/_mget", mustJSON(object{"ids": ids}))
		if err != nil {
			return err
		}
		var answer struct {
			Docs []struct {
				Source termDoc `json:"_source"`
			} `json:"docs"`
		}
		if err := json.Unmarshal(body, &answer); err != nil || len(answer.Docs) != len(part) {
			return fmt.Errorf("%w: terms", errAnswer)
		}
		for i, t := range part {
			d := answer.Docs[i].Source
			if d.Born > l.state.Current { // not visible: start again from what is
				d.Texts, d.Total = d.OldTexts, d.OldTotal
			}
			next := termDoc{
				Base: l.base, Term: t, Born: l.state.Next, OldTexts: d.Texts, OldTotal: d.Total,
				Texts: max(0, d.Texts+differences[t].Texts), Total: max(0, d.Total+differences[t].Total),
			}
			if err := b.index(ctx, ids[i], next); err != nil {
				return err
			}
		}
	}
	return b.flush(ctx)
}

// addUnfinished adds the terms that a Commit changed which did not come to its end.
func (l *lease) addUnfinished(ctx context.Context, differences map[string]*engine.TermCount) error {
	body := object{
		"size": mostHits, "track_total_hits": false, "_source": "term", "sort": []object{{"born": "asc"}, {"texts": "asc"}},
		"query": object{"range": object{"born": object{"gt": l.state.Current}}},
	}
	for {
		p, err := l.server.page(ctx, l.server.termsOf(l.base), body)
		if err != nil {
			return err
		}
		for _, h := range p.hits {
			if t := h.source.Get("term").Str; differences[t] == nil {
				differences[t] = &engine.TermCount{}
			}
		}
		if len(p.hits) < mostHits {
			return nil
		}
		body["search_after"] = p.hits[len(p.hits)-1].sortValues()
	}
}

// verify compares the number and the lengths of the chunks that the next generation shows with those of
// the documents' records. They differ if a writer that was stopped wrote after its lease had
// ended.
func (l *lease) verify(ctx context.Context, want state) error {
	next := l.state
	next.Current = next.Next
	for try := 1; ; try++ {
		p, err := l.server.page(ctx, l.server.chunksOf(l.base), object{
			"size": 0, "track_total_hits": false, "query": visible([]string{l.base}, []state{next}),
			"aggs": object{"chunks": object{"stats": object{"field": "length"}}},
		})
		if err != nil {
			return err
		}
		chunks, length := p.aggregations.Get("chunks.count").Int(), p.aggregations.Get("chunks.sum").Float()
		if chunks == int64(want.Chunks) && uint64(length) == want.Length {
			return nil
		}
		if try > 1 {
			return fmt.Errorf("base %s has %d chunks with %.0f terms, its documents have %d with %d", l.base, chunks, length, want.Chunks, want.Length)
		}
		if err := l.repair(ctx); err != nil {
			return fmt.Errorf("repair %s: %w", l.base, err)
		}
	}
}

// SetMeasures stores measures in parts that a server accepts, and then their version.
func (l *lease) SetMeasures(ctx context.Context, measuresVersion string, measures []byte) error {
	if err := l.hold(ctx, nil); err != nil {
		return err
	}
	b, before := l.bulk(l.server.stateIndex()), l.state
	parts := 0
	for part := range slices.Chunk(measures, measuresPart) {
		if err := b.index(ctx, measuresID(l.base, measuresVersion, parts), object{"part": part}); err != nil {
			return err
		}
		parts++
	}
	if err := b.flush(ctx); err != nil {
		return fmt.Errorf("put measures: %w", err)
	}
	if err := l.hold(ctx, object{"measures": measuresVersion, "measure_parts": parts}); err != nil {
		return err
	}
	for i := range before.MeasureParts {
		if before.Measures == measuresVersion && i < parts {
			continue
		}
		if err := b.delete(ctx, measuresID(l.base, before.Measures, i)); err != nil {
			return err
		}
	}
	return b.flush(ctx)
}

const measuresPart = 4 << 20

func measuresID(base, version string, part int) string {
	return fmt.Sprintf("%s/measures/%s/%d", base, idOf(version), part)
}

// Measures returns what SetMeasures stored.
func (s *Server) Measures(ctx context.Context, base string) ([]byte, error) {
	if _, mapped := s.mappings[base]; mapped {
		return nil, nil
	}
	for try := 1; ; try++ {
		states, err := s.read(ctx, []string{base})
		if err != nil {
			return nil, err
		}
		st := states[base]
		if st.Measures == "" || st.MeasureParts == 0 {
			return nil, nil
		}
		measures, err := s.measureParts(ctx, base, st)
		if err == nil || try == mostTries {
			return measures, err
		}
	}
}

func (s *Server) measureParts(ctx context.Context, base string, st state) ([]byte, error) {
	var measures []byte
	for i := range st.MeasureParts {
		body, err := s.client.call(ctx, "GET", "/"+s.stateIndex()+"/_doc/"+pathOf(measuresID(base, st.Measures, i)), nil)
		if err != nil {
			return nil, fmt.Errorf("measures of %s: %w", base, err)
		}
		var answer struct {
			Source struct {
				Part []byte `json:"part"`
			} `json:"_source"`
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return nil, fmt.Errorf("measures of %s: %w: %w", base, errAnswer, err)
		}
		measures = append(measures, answer.Source.Part...)
	}
	return measures, nil
}

// cleanPart is how many chunks Clean removes at a time.
const cleanPart = 5000

// Clean removes what ended in a generation that became the current one at least grace ago.
func (l *lease) Clean(ctx context.Context, grace time.Duration) (more bool, err error) {
	if err := l.hold(ctx, nil); err != nil {
		return false, err
	}
	last := int64(0)
	for _, g := range l.state.History {
		if g.At <= l.state.Now-grace.Milliseconds() {
			last = max(last, g.Number)
		}
	}
	if last == 0 {
		return false, nil
	}
	until := func(field string) object { return object{"range": object{field: object{"lte": last}}} }
	for index, query := range map[string]object{
		l.server.chunksOf(l.base):    until("died"),
		l.server.documentsOf(l.base): until("gone"),
		l.server.termsOf(l.base):     {"bool": object{"filter": []object{{"term": object{"texts": 0}}, until("born")}}},
	} {
		full, err := l.remove(ctx, index, query)
		if err != nil {
			return false, fmt.Errorf("clean %s: %w", index, err)
		}
		more = more || full
	}
	return more, nil
}

// remove deletes some of the documents that match a query, and reports whether there may be more.
func (l *lease) remove(ctx context.Context, index string, query object) (more bool, err error) {
	p, err := l.server.page(ctx, index, object{"size": cleanPart, "track_total_hits": false, "query": query, "_source": false})
	if err != nil || len(p.hits) == 0 {
		return false, err
	}
	b := l.bulk(index)
	for _, h := range p.hits {
		if err := b.delete(ctx, h.id); err != nil {
			return false, err
		}
	}
	if err := b.flush(ctx); err != nil {
		return false, err
	}
	return len(p.hits) == cleanPart, l.refresh(ctx, index)
}

func joined(words []string) string { return strings.Join(words, " ") }
