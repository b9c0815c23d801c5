package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
)

// defaultTTL is how long what is cached of a table is valid if nothing shows its changes.
const defaultTTL = 30 * time.Second

// codeNoColumn is the SQLSTATE of a column that is gone.
const codeNoColumn = "42703"

// readTable is read for a mapped table, whose shape is forgotten if it is not what it was.
func (s *Server) readTable(ctx context.Context, m *mapped, tenant string, q statement, first func(), each func(r *row)) error {
	statements := []statement{q}
	err := s.read(ctx, tenant, statements, first, func(_ int, r *row) { each(r) })
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == codeNoColumn || pg.Code == codeNoTable || pg.Code == codeNoFunction) {
		m.forget()
	}
	return err
}

// isOfTable reports whether an error is about one mapped table: the server answers.
func isOfTable(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, new(mismatch)) || errors.Is(err, engine.ErrNoBase) || isDenied(err) || errors.Is(err, engine.ErrRefused) ||
		errors.As(err, &pg) && strings.HasPrefix(pg.Code, classNames)
}

// A tableCount is what was last counted of a mapped table.
type tableCount struct {
	when         string // the period and the changes when it was counted
	usable, rows int
}

// isLarge reports whether counting the rows of a table takes too long.
func (found *shape) isLarge() bool { return !found.view && found.rows > mostWithoutIndex }

// changesSQL reads the period, which ends after a TTL, and what changes with every change of a table.
// Both come from the server: clients with other clocks have the same state.
func (m *mapped) changesSQL(found *shape) statement {
	ttl := m.TTL
	if ttl <= 0 {
		ttl = defaultTTL
	}
	changes := "''"
	if m.Generation != "" { // of rows that are hidden from everybody but tenants nothing is known
		changes = "(select max(t." + quoteName(m.Generation) + ")::text from " + found.table + " t)"
	}
	return statement{"select floor(extract(epoch from now()) / $1::float8)::text, " + changes, []any{ttl.Seconds()}}
}

// countSQL counts the rows that can be found, and all rows. Those of a large table are estimated.
func (m *mapped) countSQL(found *shape) statement {
	if found.isLarge() {
		return statement{"select n, n from (select greatest(0, reltuples)::bigint as n from pg_class where oid = to_regclass($1)) c", []any{m.Table}}
	}
	return statement{sql: "select count(*) filter (where " + m.usable(found) + "), count(*) from " + found.table + " t"}
}

// tableState returns the state of a mapped table. If a column shows its changes, its rows are counted
// when that changes and once a period, else each time.
func (s *Server) tableState(ctx context.Context, base string) (state engine.State, err error) {
	m := s.tables[base]
	found, err := s.shapeOf(ctx, m)
	if err != nil {
		return state, err
	}
	period, changes := "", ""
	err = s.readTable(ctx, m, "", m.changesSQL(found), func() {}, func(r *row) { period, changes = r.text(), r.text() })
	if err != nil {
		return state, err
	}
	n, _ := m.last()
	if when := period + " " + changes; m.Generation == "" || n.when != when {
		err = s.readTable(ctx, m, "", m.countSQL(found), func() {}, func(r *row) { n = tableCount{when, r.count(), r.count()} })
		if err != nil {
			return state, err
		}
		if !found.isLarge() {
			s.noteRows(m, found, n.rows-n.usable, n.rows)
		}
	}
	state = m.stateOf(n, cmp.Or(changes, period), s.pgvector())
	m.keep(n, state)
	return state, nil
}

// last returns what was last counted, and the state that was last read.
func (m *mapped) last() (tableCount, engine.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count, m.state
}

func (m *mapped) keep(n tableCount, state engine.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count, m.state = n, state
}

// stateOf returns the state of a table.
func (m *mapped) stateOf(n tableCount, changes string, vectors extension) engine.State {
	state := engine.State{Base: m.base, Documents: n.usable, Chunks: n.usable}
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q %d %q", m.Table, n.usable, changes)))
	state.Generation = hex.EncodeToString(sum[:16])
	if m.Vector != "" && vectors.schema != "" {
		state.Embedded, state.Space, state.Dimensions = n.usable, m.Space, m.Dimensions
	}
	return state
}

// noteRows notes how many rows of a table cannot be found. It is no trouble if others can.
func (s *Server) noteRows(m *mapped, found *shape, bad, all int) {
	message := ""
	if bad > 0 {
		message = fmt.Sprintf("base %q: %d of %d rows of %s are not searched, as they have no id, no text, or attributes that are no JSON object", m.base, bad, all, found.table)
	}
	about := "rows of " + m.base
	if bad < all {
		s.note(about, "")
		s.remark(about, message)
		return
	}
	s.remark(about, "")
	s.note(about, message)
}

// A tableSearch builds the statements of a search in a mapped table.
type tableSearch struct {
	*searchSQL
	m     *mapped
	found *shape
	args  arguments
	attrs string // expression of the attributes
	where string // rows that can be found
}

// searchTable finds candidates in a mapped table.
func (s *Server) searchTable(ctx context.Context, q *engine.Search) (*engine.Found, error) {
	m := s.tables[q.Bases[0]]
	if err := m.filterable(q.Filter); err != nil {
		return nil, err
	}
	shape, err := s.shapeOf(ctx, m)
	if err != nil {
		return nil, err
	}
	b := &tableSearch{searchSQL: newSearchSQL(s, nil, q), m: m, found: shape}
	_, state := m.last()
	if state.Generation == "" {
		if state, err = s.tableState(ctx, m.base); err != nil {
			return nil, err
		}
	}
	var found *engine.Found
	merged := map[string]int{}
	err = s.read(ctx, q.Tenant, []statement{b.settings(), b.candidates()}, func() {
		found = &engine.Found{States: []engine.State{state}}
		clear(merged)
	}, func(i int, r *row) {
		if i == 1 {
			merge(found, merged, r)
		}
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == codeNoColumn || pg.Code == codeNoTable) {
		m.forget()
	}
	return found, err
}

// merge adds a candidate, which may be there already: it was found by words and by vector.
func merge(found *engine.Found, merged map[string]int, r *row) {
	key := r.text()
	c := engine.Candidate{
		ByWords: r.count(), ByVector: r.count(), Cosine: r.float(), Chunks: max(1, r.count()),
		Chunk: engine.Chunk{
			Doc: r.text(), Ordinal: r.count(), Name: r.text(), Section: r.text(), Text: r.text(), Before: r.text(), After: r.text(), Attributes: attributesOf(r.text()),
		},
	}
	i, ok := merged[key]
	if !ok {
		merged[key] = len(found.Candidates)
		found.Candidates = append(found.Candidates, c)
		return
	}
	have := &found.Candidates[i]
	have.ByWords, have.ByVector = max(have.ByWords, c.ByWords), max(have.ByVector, c.ByVector)
	if c.Before != "" {
		have.Before = c.Before
	}
	if c.After != "" {
		have.After = c.After
	}
}

// candidates finds the best rows by words and by vector.
func (b *tableSearch) candidates() statement {
	b.attrs = b.m.attributes(b.found, &b.args)
	b.where = b.m.usable(b.found) + b.s.ofNobody(b.q.Tenant)
	if b.q.Filter != nil {
		b.where += " and " + condition(b.q.Filter, b.attrs, &b.args)
	}
	vector := ""
	if b.m.Vector != "" && b.byVector() && len(b.q.Vector) == b.m.Dimensions {
		vector = b.args.add(b.q.Vector) + "::real[]::" + b.kind()
	}
	var parts, outputs []string
	if strings.TrimSpace(b.q.Question) != "" {
		parts = append(parts, b.words(vector)...)
		outputs = append(outputs, b.output("by_words", "h.place", "null::bigint"))
	}
	if vector != "" {
		parts = append(parts, b.byVectors(vector))
		outputs = append(outputs, b.output("by_vector", "null::bigint", "h.place"))
	}
	if len(outputs) == 0 {
		return statement{sql: "select 1 where false"}
	}
	return statement{"with " + strings.Join(parts, ",\n") + "\n" + strings.Join(outputs, "\nunion all\n"), b.args}
}

// kind is the type of the column of vectors.
func (b *tableSearch) kind() string {
	name, _, _ := strings.Cut(b.found.types[b.m.Vector], "(")
	return b.vectors.schema + "." + quoteName(name)
}

// distance is the expression of the distance of a row of t.
func (b *tableSearch) distance(vector string) string {
	return fmt.Sprintf("t.%s operator(%s.<=>) %s", quoteName(b.m.Vector), b.vectors.schema, vector)
}

// comparable is true for rows of t with a vector of the right size.
func (b *tableSearch) comparable() string {
	where := "t." + quoteName(b.m.Vector) + " is not null"
	if !b.found.sized {
		where += fmt.Sprintf(" and %s.vector_dims(t.%s) = %d", b.vectors.schema, quoteName(b.m.Vector), b.m.Dimensions)
	}
	return where
}

// fields are the expressions of a candidate, from a row of t.
func (b *tableSearch) fields(vector string) string {
	cosine := "0::float8"
	if vector != "" {
		cosine = "case when " + b.comparable() + " then 1 - (" + b.distance(vector) + ") else 0 end"
	}
	return strings.Join([]string{
		"t." + quoteName(b.m.ID) + "::text as key", b.m.document() + " as doc", b.m.ordinal() + " as ordinal", text(b.m.Title, "''") + " as title",
		text(b.m.Section, "''") + " as section", "t." + quoteName(b.m.Text) + "::text as body", b.attrs + "::text as attributes", cosine + " as cosine",
	}, ", ")
}

// output is the statement that returns what a part found.
func (b *tableSearch) output(part, words, vector string) string {
	neighbour := func(step int) string {
		if !b.found.document {
			return "null::text"
		}
		// Each row has attributes of its own, so the filter applies to neighbours too.
		return fmt.Sprintf("(select t.%s::text from %s t where h.place <= %d and %s = h.doc and %s = h.ordinal + %d and %s limit 1)",
			quoteName(b.m.Text), b.found.table, b.q.Neighbours, b.m.document(), b.m.ordinal(), step, b.where)
	}
	chunks := "1::bigint"
	if b.found.document {
		chunks = fmt.Sprintf("(select count(*) from %s t where %s = h.doc)", b.found.table, b.m.document())
	}
	return fmt.Sprintf("select h.key, %s, %s, h.cosine, %s, h.doc, h.ordinal, h.title, h.section, h.body, %s, %s, h.attributes from %s h",
		words, vector, chunks, neighbour(-1), neighbour(+1), part)
}

// words finds the best rows by words. How common a lexeme is comes from the statistics of the
// planner, if the table has a tsvector column that was analysed: they list the most common lexemes.
// Without them all are taken as equally common. A text has no length but the number of its lexemes,
// and the weights of a tsvector do not matter.
func (b *tableSearch) words(vector string) []string {
	language := "get_current_ts_config()"
	if b.m.Language != "" {
		language = b.args.add(b.m.Language) + "::text::regconfig"
	}
	rows := max(1000, b.found.rows)
	term := fmt.Sprintf(`asked as materialized (
  select l.lexeme as plain from unnest(to_tsvector(%s, left(%s::text, 20000))) l),
common as materialized (
  select e.lexeme, e.freq from pg_stats s cross join lateral unnest(s.most_common_elems::text::text[], s.most_common_elem_freqs) e(lexeme, freq)
  where s.schemaname = %s::text and s.tablename = %s::text and s.attname = %s::text and e.lexeme is not null),
mean as materialized (select %[6]f::float8 as chunks),
term as materialized (
  select '''' || replace(replace(a.plain, '\', '\\'), '''', '''''') || '''' as lexeme, f.texts, ln(1 + mean.chunks / (f.texts + 0.5)) as gain,
    sum(f.texts) over w as through, row_number() over w as place
  from asked a cross join mean left join common c on c.lexeme = a.plain
  cross join lateral (select mean.chunks * coalesce(c.freq, (select min(freq) from common) / 2, 0.001) as texts) f
  window w as (order by f.texts, a.plain) order by f.texts limit %[7]d)`,
		language, b.args.add(b.q.Question), b.args.add(b.found.schema), b.args.add(b.found.name), b.args.add(b.m.Lexemes), rows, mostLexemes)
	ranked := fmt.Sprintf(`by_words as materialized (
  select b.*, row_number() over (order by score desc, key) as place from (
    select r.*, %s as score from (select r.*, %s as spread from (
      select %s, %s as words, length(%s) as length, avg(length(%s)) over () as mean from %s t
      where %s @@ (select bounded from question) and %s limit %d) r offset 0) r cross join w
    order by score desc, key limit %d) b)`, score(mostLexemes), fmt.Sprintf(spread, "r.mean"), b.fields(vector), b.m.lexemes("t."), b.m.lexemes("t."), b.m.lexemes("t."), b.found.table,
		b.m.lexemes("t."), b.where, hardRanked, b.q.Depth)
	return []string{term, gainColumns(mostLexemes), questionParts(b.q.Depth), ranked}
}

// mostLexemes bounds the lexemes of a question; the rarest are kept.
const mostLexemes = 32

// byVectors finds the best rows by vector.
func (b *tableSearch) byVectors(vector string) string {
	return fmt.Sprintf(`by_vector as materialized (
  select b.*, row_number() over (order by cosine desc, key) as place from (
    select %s from %s t where %s and %s order by %s limit %d) b)`,
		b.fields(vector), b.found.table, b.comparable(), b.where, b.distance(vector), b.q.Depth)
}

// tablePassage returns rows of a document.
func (s *Server) tablePassage(ctx context.Context, base, doc string, first, end int, f *filter.Filter, tenant string) ([]engine.Chunk, error) {
	m := s.tables[base]
	if err := m.filterable(f); err != nil {
		return nil, err
	}
	found, err := s.shapeOf(ctx, m)
	if err != nil {
		return nil, err
	}
	b := &tableSearch{searchSQL: newSearchSQL(s, nil, &engine.Search{}), m: m, found: found, args: arguments{doc, int64(first), int64(end)}}
	b.attrs = m.attributes(found, &b.args)
	where := condition(f, b.attrs, &b.args) + s.ofNobody(tenant)
	var chunks []engine.Chunk
	err = s.readTable(ctx, m, tenant, statement{fmt.Sprintf("select %s, null::real[] from %s t where %s = $1::text and %s >= $2 and %s < $3 and %s and %s order by 3",
		b.fields(""), found.table, m.document(), m.ordinal(), m.ordinal(), m.usable(found), where), b.args},
		func() { chunks = nil }, func(r *row) { chunks = append(chunks, readTableChunk(r)) })
	return chunks, err
}

// readTableChunk reads fields and a vector.
func readTableChunk(r *row) engine.Chunk {
	_ = r.text() // the key
	c := engine.Chunk{Doc: r.text(), Ordinal: r.count(), Name: r.text(), Section: r.text(), Text: r.text(), Attributes: attributesOf(r.text())}
	_ = r.float() // the cosine
	c.Vector = r.floats()
	return c
}

// attributesOf returns the attributes of a row without values that no attribute has, such as objects
// and null.
func attributesOf(text string) string {
	var all map[string]any
	if json.Unmarshal([]byte(text), &all) != nil {
		return "{}"
	}
	maps.DeleteFunc(all, func(key string, v any) bool {
		_, err := chunk.Attribute(key, v)
		return err != nil
	})
	if len(all) == 0 {
		return "{}"
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		panic("BUG: attributes that were decoded cannot be encoded: " + err.Error())
	}
	return string(encoded)
}

// ofNobody returns a condition that hides all rows from a search without a tenant, as a policy of
// row-level security may show them for tableSample.
func (s *Server) ofNobody(tenant string) string {
	if s.options.TenantAs != "" && tenant == "" {
		return " and false"
	}
	return ""
}

// hidden says that row-level security hides all rows from a sample, for people; "" if it does not.
func (s *Server) hidden(m *mapped, found *shape, rows int) string {
	if rows > 0 || s.options.TenantAs == "" {
		return ""
	}
	return fmt.Sprintf("base %q: without a tenant no row of %s is visible, so nobody knows how common words are. Run: create policy sidenote on %s for select to %s using (current_setting(%s, true) = '')",
		m.base, found.table, found.table, quoteName(s.options.User), quoteText(s.options.TenantAs))
}

// tableSample returns about n rows. Of a large table it reads some pages, always the same ones as
// long as nothing is written. It also notes how many of its rows cannot be found.
func (s *Server) tableSample(ctx context.Context, base string, n int) ([]engine.Chunk, error) {
	m := s.tables[base]
	found, err := s.shapeOf(ctx, m)
	if err != nil {
		return nil, err
	}
	b := &tableSearch{searchSQL: newSearchSQL(s, nil, &engine.Search{}), m: m, found: found}
	b.attrs = m.attributes(found, &b.args)
	pages := ""
	if found.isLarge() {
		pages = " tablesample system (" + strconv.FormatFloat(min(100, 200*float64(n)/found.rows+.01), 'f', 4, 64) + ") repeatable (1)"
	}
	vector := "null::real[]"
	if m.Vector != "" && b.vectors.schema != "" {
		vector = fmt.Sprintf("case when %s then t.%s::%s.vector::real[] end", b.comparable(), quoteName(m.Vector), b.vectors.schema)
	}
	key := "t." + quoteName(m.ID) + "::text"
	var chunks []engine.Chunk
	var all, bad int
	err = s.read(ctx, "", []statement{
		{fmt.Sprintf("select %s, %s from %s t%s where %s order by hashtextextended(%s, 1), %s limit %d", b.fields(""), vector, found.table, pages, m.usable(found), key, key, n), b.args},
		{sql: fmt.Sprintf("select count(*), count(*) filter (where not (%s)) from (select * from %s t%s limit %d) t", m.usable(found), found.table, pages, 10*n)},
	}, func() { chunks = nil }, func(i int, r *row) {
		if i == 0 {
			chunks = append(chunks, readTableChunk(r))
		} else {
			all, bad = r.count(), r.count()
		}
	})
	if err == nil {
		s.note("sample of "+base, s.hidden(m, found, all))
		if found.isLarge() {
			s.noteRows(m, found, bad, all)
		}
	}
	return chunks, err
}
