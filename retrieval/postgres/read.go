package postgres

import (
	"context"
	"fmt"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
)

// passageColumns are the columns that readChunk reads, of chunks c and documents d.
const passageColumns = "d.id, c.ordinal, d.name, c.section, c.body, d.attributes, c.tokens, c.sketch, c.length, c.packed, c.vector_key, c.embedding"

func readChunk(r *row) engine.Chunk {
	return engine.Chunk{
		Doc: r.text(), Ordinal: r.count(), Name: r.text(), Section: r.text(), Text: r.text(), Attributes: r.text(),
		Tokens: r.text(), Sketch: r.blob(), Length: r.count(), Packed: r.blob(), VectorKey: r.blob(), Vector: r.floats(),
	}
}

// visibleNow is true for documents d of bases b that are visible.
const visibleNow = "d.base = b.id and d.born <= b.current and (d.died is null or d.died > b.current)"

// Passage returns chunks of a document.
func (s *Server) Passage(ctx context.Context, base, doc string, first, end int, f *filter.Filter, tenant string) ([]engine.Chunk, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	if s.tables[base] != nil {
		return s.tablePassage(ctx, base, doc, first, end, f, tenant)
	}
	id, err := s.id(ctx, base)
	if err != nil {
		return nil, err
	}
	args := arguments{doc, int64(first), int64(end)}
	where := condition(f, "d.filterable", &args)
	var chunks []engine.Chunk
	err = s.read(ctx, tenant, []statement{{fmt.Sprintf(`select %s from %[2]s.bases b join %[2]s.documents d on %s
		join %[2]s.chunks c on c.base = %[4]d and c.doc = d.key
		where b.id = %[4]d and d.id = $1 and c.ordinal >= $2 and c.ordinal < $3 and %[5]s order by c.ordinal`,
		passageColumns, s.schema, visibleNow, id, where), args}},
		func() { chunks = nil }, func(_ int, r *row) { chunks = append(chunks, readChunk(r)) })
	return chunks, err
}

// Sample returns the chunks whose keys have the smallest hashes, so the same ones for the same
// content. Only the keys of all chunks are read.
func (s *Server) Sample(ctx context.Context, base string, n int) ([]engine.Chunk, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	if s.tables[base] != nil {
		return s.tableSample(ctx, base, n)
	}
	id, err := s.id(ctx, base)
	if err != nil {
		return nil, err
	}
	var chunks []engine.Chunk
	err = s.read(ctx, "", []statement{{fmt.Sprintf(`select %s from (
			select c.doc, c.ordinal, hashtextextended(d.id, c.ordinal) as hash from %[2]s.bases b join %[2]s.documents d on %s
			join %[2]s.chunks c on c.base = %[4]d and c.doc = d.key where b.id = %[4]d
			order by hash, d.id, c.ordinal limit $1) k
		join %[2]s.chunks c on c.base = %[4]d and c.doc = k.doc and c.ordinal = k.ordinal
		join %[2]s.documents d on d.key = k.doc order by k.hash, d.id, c.ordinal`,
		passageColumns, s.schema, visibleNow, id), []any{int64(n)}}},
		func() { chunks = nil }, func(_ int, r *row) { chunks = append(chunks, readChunk(r)) })
	return chunks, err
}

// Vocabulary returns the most frequent terms of a base.
func (s *Server) Vocabulary(ctx context.Context, base string, most int) ([]engine.TermCount, error) {
	if s.tables[base] != nil {
		return nil, nil
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	id, err := s.id(ctx, base)
	if err != nil {
		return nil, err
	}
	var terms []engine.TermCount
	err = s.read(ctx, "", []statement{{`select term, texts, total from ` + s.schema + `.terms
		where base = $1 and texts > 0 order by texts desc, term limit $2`, []any{int64(id), int64(most)}}},
		func() { terms = nil }, func(_ int, r *row) {
			terms = append(terms, engine.TermCount{Text: r.text(), Texts: r.count(), Total: r.integer()})
		})
	return terms, err
}

// Measures returns what SetMeasures stored.
func (s *Server) Measures(ctx context.Context, base string) ([]byte, error) {
	if s.tables[base] != nil {
		return nil, nil
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	id, err := s.id(ctx, base)
	if err != nil {
		return nil, err
	}
	var measures []byte
	err = s.read(ctx, "", []statement{{`select measures from ` + s.schema + `.bases where id = $1`, []any{int64(id)}}},
		func() { measures = nil }, func(_ int, r *row) { measures = r.blob() })
	return measures, err
}

// Filterable returns an error if a filter names an attribute that a table of others does not have.
func (s *Server) Filterable(base string, f *filter.Filter) error {
	if m := s.tables[base]; m != nil {
		return m.filterable(f)
	}
	return nil
}
