package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"sidenote/retrieval/engine"
)

// The columns that Put fills, in the order of putDocument, putTerms and putChunk.
const (
	documentColumns = "key, base, id, born, name, source, stamp, sum, attributes, filterable, chunks, embedded, dimensions, bytes, length, distinct_terms"
	termColumnNames = "doc, terms, texts, totals"
	chunkColumns    = "base, doc, ordinal, length, dimensions, section, body, packed, words, tokens, sketch, vector_key, embedding"
)

// Put replaces and deletes documents. What an earlier Put of the same generation wrote about them is
// removed, so it can be repeated.
func (l *lease) Put(ctx context.Context, documents []engine.Document, deleted []string) error {
	if err := checkDocuments(documents); err != nil {
		return err
	}
	ids := append([]string{}, deleted...)
	for i := range documents {
		ids = append(ids, documents[i].ID)
	}
	return l.leased(ctx, func(c *session, next int64) error {
		var keys []int64
		err := c.run(ctx, append(l.replace(ids, next), statement{
			`select nextval(pg_get_serial_sequence($1, 'key')) from generate_series(1, $2::bigint)`,
			[]any{l.s.schema + ".documents", int64(len(documents))},
		}), func(_ int, r *row) { keys = append(keys, r.integer()) })
		if err != nil || len(documents) == 0 {
			return err
		}
		if len(keys) != len(documents) {
			return fmt.Errorf("postgres: %d keys for %d documents", len(keys), len(documents))
		}
		return l.copy(ctx, c, documents, keys, next)
	})
}

// checkDocuments returns an error for documents that contradict themselves.
func checkDocuments(documents []engine.Document) error {
	for i := range documents {
		d := &documents[i]
		if len(d.Words) != len(d.Chunks) {
			return fmt.Errorf("postgres: document %.100q has words of %d chunks, but %d chunks", d.ID, len(d.Words), len(d.Chunks))
		}
		dimensions := dimensionsOf(d)
		for j := range d.Chunks {
			if n := len(d.Chunks[j].Vector); n != 0 && n != dimensions {
				return fmt.Errorf("postgres: document %.100q: the vector of chunk %d has %d dimensions, another %d", d.ID, j, n, dimensions)
			}
		}
	}
	return nil
}

// dimensionsOf returns the number of dimensions of the vectors of a document; 0 without.
func dimensionsOf(d *engine.Document) int {
	for i := range d.Chunks {
		if n := len(d.Chunks[i].Vector); n > 0 {
			return n
		}
	}
	return 0
}

// replace marks the visible versions of documents as dying with the next generation, and removes
// those of the next generation.
func (l *lease) replace(ids []string, next int64) []statement {
	args := []any{int64(l.id), ids, next}
	return []statement{
		{`with gone as (delete from ` + l.s.schema + `.documents where base = $1 and id = any($2) and born = $3 returning key),
			terms as (delete from ` + l.s.schema + `.document_terms where doc in (select key from gone))
			delete from ` + l.s.schema + `.chunks where base = ` + strconv.Itoa(l.id) + ` and doc in (select key from gone)`, args},
		{`update ` + l.s.schema + `.documents set died = $3 where base = $1 and id = any($2) and born < $3 and died is null`, args},
	}
}

func (l *lease) copy(ctx context.Context, c *session, documents []engine.Document, keys []int64, next int64) error {
	rows, terms, chunks := newCopier(), newCopier(), newCopier()
	for i := range documents {
		d := &documents[i]
		if err := l.putDocument(rows, d, keys[i], next); err != nil {
			return err
		}
		putTerms(terms, d, keys[i])
		for j := range d.Chunks {
			l.putChunk(chunks, &d.Chunks[j], keys[i], j, d.Words[j])
		}
	}
	if err := rows.send(ctx, c, l.s.schema+".documents", documentColumns); err != nil {
		return err
	}
	if err := terms.send(ctx, c, l.s.schema+".document_terms", termColumnNames); err != nil {
		return err
	}
	return chunks.send(ctx, c, l.s.schema+".chunks", chunkColumns)
}

func (l *lease) putDocument(c *copier, d *engine.Document, key, next int64) error {
	attributes := d.Attributes
	if attributes == "" {
		attributes = "{}"
	}
	filterable, err := filterable(attributes)
	if err != nil {
		return fmt.Errorf("postgres: attributes of document %.100q: %w", d.ID, err)
	}
	var embedded, distinct int
	var size, length int64
	for i := range d.Chunks {
		chunk := &d.Chunks[i]
		if len(chunk.Vector) > 0 {
			embedded++
		}
		size, length, distinct = size+int64(len(chunk.Text)), length+int64(chunk.Length), distinct+engine.Distinct(chunk.Packed)
	}
	c.row(16)
	c.bigint(key)
	c.integer(l.id)
	c.text(d.ID)
	c.bigint(next)
	c.text(d.Name)
	c.text(d.Source)
	c.text(d.Stamp)
	c.blob(d.Sum[:])
	c.text(attributes)
	c.jsonb(filterable)
	c.integer(len(d.Chunks))
	c.integer(embedded)
	c.integer(dimensionsOf(d))
	c.bigint(size)
	c.bigint(length)
	c.bigint(int64(distinct))
	return nil
}

func putTerms(c *copier, d *engine.Document, key int64) {
	c.row(4)
	c.bigint(key)
	c.array(oidOf(""), len(d.Terms), func() {
		for _, t := range d.Terms {
			c.text(t.Text)
		}
	})
	c.array(oidOf(int64(0)), len(d.Terms), func() {
		for _, t := range d.Terms {
			c.bigint(int64(t.Texts))
		}
	})
	c.array(oidOf(int64(0)), len(d.Terms), func() {
		for _, t := range d.Terms {
			c.bigint(t.Total)
		}
	})
}

func (l *lease) putChunk(c *copier, chunk *engine.Chunk, key int64, ordinal int, words []string) {
	c.row(13)
	c.integer(l.id)
	c.bigint(key)
	c.integer(ordinal)
	c.integer(chunk.Length)
	c.integer(len(chunk.Vector))
	c.text(chunk.Section)
	c.text(chunk.Text)
	c.blob(chunk.Packed)
	c.words(words)
	c.text(chunk.Tokens)
	c.blob(chunk.Sketch)
	c.blob(chunk.VectorKey)
	if len(chunk.Vector) == 0 {
		c.null()
	} else {
		c.floats(chunk.Vector)
	}
}

// indexFrom is the number of vectors from which a base has an index of them: comparing fewer takes
// no longer, and is exact.
const indexFrom = 2000

// Commit makes what was put visible, in one transaction. Indexes that are missing are built before.
func (l *lease) Commit(ctx context.Context, generation, space string) error {
	if err := l.buildIndexes(ctx); err != nil {
		return err
	}
	err := l.leased(ctx, func(c *session, next int64) error {
		base := int64(l.id)
		return c.run(ctx, []statement{
			{l.countTerms(), []any{base, next}},
			{l.countDocuments(), []any{base, next, generation, space}},
			{`insert into ` + l.s.schema + `.generations values ($1, $2, clock_timestamp())`, []any{base, next}},
			l.renewal(""),
		}, nil)
	})
	if err == nil {
		l.tidy(ctx)
	}
	return err
}

// countTerms adds the terms of the documents that are born to those of the base, and subtracts
// those of the documents that die.
func (l *lease) countTerms() string {
	return `insert into ` + l.s.schema + `.terms as t (base, term, texts, total)
		select $1, u.term, sum(d.sign * u.texts), sum(d.sign * u.total) from (
			select key, 1 as sign from ` + l.s.schema + `.documents where base = $1 and born = $2
			union all select key, -1 from ` + l.s.schema + `.documents where base = $1 and died = $2) d
		join ` + l.s.schema + `.document_terms m on m.doc = d.key
		cross join lateral unnest(m.terms, m.texts, m.totals) u(term, texts, total)
		group by u.term having sum(d.sign * u.texts) <> 0 or sum(d.sign * u.total) <> 0 order by u.term
		on conflict (base, term) do update set texts = t.texts + excluded.texts, total = t.total + excluded.total`
}

// countDocuments counts what the next generation shows, and makes it visible.
func (l *lease) countDocuments() string {
	return `update ` + l.s.schema + `.bases b set current = $2, digest = $3, space = $4, documents = n.documents, chunks = n.chunks,
		embedded = n.embedded, bytes = n.bytes, length = n.length, distinct_terms = n.distinct_terms, dimensions = n.dimensions
		from (select count(*) as documents, coalesce(sum(chunks), 0) as chunks, coalesce(sum(embedded), 0) as embedded,
			coalesce(sum(bytes), 0) as bytes, coalesce(sum(length), 0) as length, coalesce(sum(distinct_terms), 0) as distinct_terms,
			coalesce(max(dimensions), 0) as dimensions
			from ` + l.s.schema + `.documents where base = $1 and born <= $2 and died is null) n
		where b.id = $1`
}

// An index is one that a base lacks.
type index struct {
	what string // words or vectors
	call string // creates it
}

// buildIndexes builds the indexes that the base lacks: that of its words, and that of its vectors if
// they are many. The row of the base is locked meanwhile, so no other writer takes over.
func (l *lease) buildIndexes(ctx context.Context) error {
	missing, err := l.missingIndexes(ctx)
	if err != nil {
		return err
	}
	for _, x := range missing {
		err := l.leased(ctx, func(c *session, _ int64) error {
			return c.run(ctx, []statement{
				{sql: "select set_config('maintenance_work_mem', greatest(pg_size_bytes(current_setting('maintenance_work_mem')), 536870912)::bigint / 1024 || 'kB', true)"},
				{sql: "select " + x.call},
				l.renewal(""),
			}, nil)
		})
		about := x.what + " of " + l.base
		switch {
		case isDenied(err):
			l.s.note(about, fmt.Sprintf("base %q has no index of its %s, as its tables belong to another user. Run: select %s", l.base, x.what, x.call))
		case err != nil:
			return err
		default:
			l.s.note(about, "")
		}
	}
	return nil
}

// missingIndexes returns the indexes that the base lacks.
func (l *lease) missingIndexes(ctx context.Context) (missing []index, err error) {
	prefix := l.s.schema + fmt.Sprintf(`."chunks_%d_`, l.id)
	vectors := l.s.pgvector().schema != ""
	err = l.leased(ctx, func(c *session, _ int64) error {
		return c.run(ctx, []statement{
			{"select to_regclass($1) is null", []any{prefix + `words"`}},
			{`select dimensions from (select dimensions, sum(embedded) as embedded from ` + l.s.schema + `.documents
				where base = $1 and died is null and dimensions > 0 group by dimensions) n
				where embedded >= ` + strconv.Itoa(indexFrom) + ` and to_regclass($2 || dimensions || '"') is null`,
				[]any{int64(l.id), prefix + "vectors_"}},
		}, func(i int, r *row) {
			switch {
			case i == 0 && r.boolean():
				missing = append(missing, index{"words", fmt.Sprintf("%s.index_words(%d)", l.s.schema, l.id)})
			case i == 1 && vectors:
				missing = append(missing, index{"vectors", fmt.Sprintf("%s.index_vectors(%d, %d)", l.s.schema, l.id, r.count())})
			}
		})
	})
	return missing, err
}

// tidy tells the planner about what was written, and moves it into the index of words. Only the
// owner of the tables may; the server does both by itself later.
func (l *lease) tidy(ctx context.Context) {
	c, err := l.s.acquire(ctx)
	if err != nil {
		return
	}
	defer c.release(ctx)
	part := l.s.schema + `."chunks_` + strconv.Itoa(l.id) + `"`
	_ = c.run(ctx, []statement{{`select gin_clean_pending_list(i.indexrelid) from pg_index i join pg_class c on c.oid = i.indexrelid
		join pg_am a on a.oid = c.relam where i.indrelid = to_regclass($1) and a.amname = 'gin'`, []any{part}}}, nil)
	for _, table := range []string{part, l.s.schema + ".documents", l.s.schema + ".terms"} {
		_ = c.run(ctx, []statement{{sql: "analyze " + table}}, nil)
	}
}

// cleaned is the number of documents that Clean removes at a time.
const cleaned = 500

// Clean removes documents that are not visible any more.
func (l *lease) Clean(ctx context.Context, grace time.Duration) (more bool, err error) {
	removed := 0
	err = l.leased(ctx, func(c *session, next int64) error {
		old := `(select max(generation) from ` + l.s.schema + `.generations
			where base = $1 and generation < $3 and committed <= clock_timestamp() - $2 * interval '1 second')`
		args := []any{int64(l.id), grace.Seconds(), next}
		return c.run(ctx, []statement{
			{`with gone as (delete from ` + l.s.schema + `.documents where key in (select key from ` + l.s.schema + `.documents
					where base = $1 and died <= ` + old + ` limit ` + strconv.Itoa(cleaned) + `) returning key),
				terms as (delete from ` + l.s.schema + `.document_terms where doc in (select key from gone)),
				texts as (delete from ` + l.s.schema + `.chunks where base = ` + strconv.Itoa(l.id) + ` and doc in (select key from gone))
				select count(*) from gone`, args},
			{`delete from ` + l.s.schema + `.generations where base = $1 and generation < ` + old, args},
			{`delete from ` + l.s.schema + `.terms where base = $1 and texts <= 0`, args[:1]},
		}, func(_ int, r *row) { removed = r.count() })
	})
	return removed == cleaned, err
}
