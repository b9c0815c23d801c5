package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
)

// mostWithoutIndex is the number of rows above which a table must have indexes: each search would
// read all of it.
const mostWithoutIndex = 100_000

// A mapped is a table that others write.
type mapped struct {
	engine.Mapping
	base string

	mu    sync.Mutex
	shape *shape       // nil until it was seen
	count tableCount   // the last one
	state engine.State // that was last read
}

// A shape is what the database says about a mapped table.
type shape struct {
	table    string            // quoted
	schema   string            // as in pg_stats
	name     string            // as in pg_stats
	rows     float64           // estimated
	view     bool              // so it has no indexes
	types    map[string]string // of its columns
	indexes  []tableIndex
	sized    bool // the vector column has a number of dimensions
	document bool // there is an index by Document
}

// A tableIndex is a column or an expression of an index.
type tableIndex struct {
	name     string
	method   string // gin, hnsw, …
	part     string // as pg_get_indexdef writes it
	operator string // class
	first    bool   // it is the first of the index
}

func newMapped(base string, m engine.Mapping) (*mapped, error) {
	field := ""
	switch {
	case m.Table == "":
		field = "table"
	case m.ID == "":
		field = "id"
	case m.Text == "":
		field = "text"
	case (m.Document == "") != (m.Ordinal == ""):
		return nil, fmt.Errorf("postgres: base %q: document %q and ordinal %q: one needs the other", base, m.Document, m.Ordinal)
	case m.Lexemes == "" && m.Language == "":
		return nil, fmt.Errorf("postgres: base %q: lexemes and language are empty; name a tsvector column or a text search configuration", base)
	case m.Vector != "" && m.Dimensions <= 0:
		return nil, fmt.Errorf("postgres: base %q: vector %q needs dimensions, not %d", base, m.Vector, m.Dimensions)
	}
	if field != "" {
		return nil, fmt.Errorf("postgres: base %q: %s is empty", base, field)
	}
	return &mapped{Mapping: m, base: base}, nil
}

// filterable returns an error for a filter with an attribute that the table does not have.
func (m *mapped) filterable(f *filter.Filter) error {
	if m.Attributes != "" {
		return nil
	}
	for key := range f.Keys {
		if _, ok := m.AttributeColumns[key]; !ok && !(key == "url" && m.URL != "") && !(key == "date" && m.Date != "") {
			return fmt.Errorf("postgres: base %q: filter key %q is neither an attribute column nor url or date, and there is no attributes column", m.base, key)
		}
	}
	return nil
}

// Check returns what is wrong with the tables of others: a missing table, column or index, wrong
// types or dimensions.
func (s *Server) Check(ctx context.Context) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	var all []error
	for _, base := range slices.Sorted(maps.Keys(s.tables)) {
		s.tables[base].forget()
		_, err := s.shapeOf(ctx, s.tables[base])
		all = append(all, err)
	}
	return errors.Join(all...)
}

// forget makes the next use look at the table again.
func (m *mapped) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shape, m.count, m.state = nil, tableCount{}, engine.State{}
}

// shapeOf returns the shape of a table, which must be as its Mapping says.
func (s *Server) shapeOf(ctx context.Context, m *mapped) (*shape, error) {
	m.mu.Lock()
	known := m.shape
	m.mu.Unlock()
	if known != nil {
		return known, nil
	}
	found, err := s.look(ctx, m)
	if err == nil {
		err = m.check(found, s.pgvector())
	}
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shape = found
	return found, nil
}

// look reads the shape of a table, and the version of pgvector.
func (s *Server) look(ctx context.Context, m *mapped) (*shape, error) {
	var found *shape
	table := []any{m.Table}
	err := s.read(ctx, "", []statement{
		{sql: extensionSQL},
		{`select quote_ident(n.nspname) || '.' || quote_ident(c.relname), n.nspname, c.relname, c.relkind in ('v', 'f'),
			greatest(c.reltuples, (select sum(p.reltuples) from pg_partition_tree(c.oid) t join pg_class p on p.oid = t.relid))::float8
			from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass($1)`, table},
		{`select a.attname, t.typname, a.atttypmod from pg_attribute a join pg_type t on t.oid = a.atttypid
			where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped`, table},
		{`select i.indexrelid::regclass::text, m.amname, pg_get_indexdef(i.indexrelid, k::integer, false), coalesce(o.opcname, ''), k
			from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am m on m.oid = c.relam
			cross join generate_series(1, i.indnkeyatts) k left join pg_opclass o on o.oid = i.indclass[k - 1]
			where i.indrelid = to_regclass($1) and i.indisvalid and i.indpred is null order by 1, 5`, table},
	}, func() { found = nil }, func(i int, r *row) {
		switch i {
		case 0:
			s.sawVectors(newExtension(r.text(), r.text()))
		case 1:
			found = &shape{table: r.text(), schema: r.text(), name: r.text(), view: r.boolean(), rows: r.float(), types: map[string]string{}}
		case 2:
			name := r.text()
			found.types[name] = r.text()
			if r.integer() > 0 && name == m.Vector {
				found.types[name] += "(" + strconv.FormatInt(r.again(), 10) + ")"
				found.sized = true
			}
		case 3:
			x := tableIndex{name: r.text(), method: r.text(), part: r.text(), operator: r.text(), first: r.integer() == 1}
			found.indexes = append(found.indexes, x)
			found.document = found.document || x.first && m.Document != "" && x.part == quoteIdent(m.Document)
		}
	})
	if err == nil && found == nil {
		err = fmt.Errorf("postgres: base %q: table %q does not exist: %w", m.base, m.Table, engine.ErrNoBase)
	}
	return found, err
}

// A mismatch says how a table differs from its Mapping.
type mismatch struct{ error }

// check compares a table with its Mapping. The error is a mismatch.
func (m *mapped) check(found *shape, vectors extension) error {
	if err := cmp.Or(m.checkColumns(found), m.checkVector(found, vectors), m.checkIndexes(found, vectors)); err != nil {
		return mismatch{err}
	}
	return nil
}

func (m *mapped) checkColumns(found *shape) error {
	for _, c := range m.columns() {
		if _, ok := found.types[c.name]; !ok {
			return fmt.Errorf("postgres: base %q: %s: table %s has no column %q", m.base, c.field, found.table, c.name)
		}
	}
	if m.Lexemes != "" && found.types[m.Lexemes] != "tsvector" {
		return fmt.Errorf("postgres: base %q: lexemes: column %q has type %s, want tsvector", m.base, m.Lexemes, found.types[m.Lexemes])
	}
	if kind := found.types[m.Attributes]; m.Attributes != "" && kind != "jsonb" && kind != "json" {
		return fmt.Errorf("postgres: base %q: attributes: column %q has type %s, want jsonb or json", m.base, m.Attributes, kind)
	}
	return nil
}

func (m *mapped) checkVector(found *shape, vectors extension) error {
	if m.Vector == "" || vectors.schema == "" {
		return nil
	}
	kind, size, _ := strings.Cut(strings.TrimSuffix(found.types[m.Vector], ")"), "(")
	if kind != "vector" && kind != "halfvec" {
		return fmt.Errorf("postgres: base %q: vector: column %q has type %s, want vector or halfvec", m.base, m.Vector, found.types[m.Vector])
	}
	if found.sized && size != strconv.Itoa(m.Dimensions) {
		return fmt.Errorf("postgres: base %q: vector: column %q has %s dimensions, the model %d", m.base, m.Vector, size, m.Dimensions)
	}
	return nil
}

// checkIndexes returns an error for a large table without an index that every search needs.
func (m *mapped) checkIndexes(found *shape, vectors extension) error {
	if !found.isLarge() {
		return nil
	}
	missing := func(what, index string) error {
		return fmt.Errorf("postgres: base %q: table %s has about %.0f rows and no index of its %s; run: create index concurrently on %s using %s",
			m.base, found.table, found.rows, what, found.table, index)
	}
	if words := m.lexemes(""); !slices.ContainsFunc(found.indexes, func(x tableIndex) bool {
		return (x.method == "gin" || x.method == "gist" || x.method == "rum") && squeeze(x.part) == squeeze(words)
	}) {
		return missing("words", "gin ("+words+")")
	}
	if m.Vector == "" || vectors.schema == "" {
		return nil
	}
	if !slices.ContainsFunc(found.indexes, func(x tableIndex) bool {
		return (x.method == "hnsw" || x.method == "ivfflat") && x.part == quoteIdent(m.Vector) && strings.HasSuffix(x.operator, "_cosine_ops")
	}) {
		kind, _, _ := strings.Cut(found.types[m.Vector], "(")
		return missing("vectors", fmt.Sprintf("hnsw (%s %s_cosine_ops)", quoteIdent(m.Vector), kind))
	}
	return nil
}

// squeeze removes what pg_get_indexdef adds to an expression.
func squeeze(expression string) string {
	return strings.NewReplacer(" ", "", "(", "", ")", "", `"`, "", "::text", "").Replace(expression)
}

// quoteIdent quotes a name if it must be, as quote_ident does for names that are no key words.
func quoteIdent(name string) string {
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return quoteName(name)
		}
	}
	return name
}

// A column is a column that a Mapping names, with the field that names it.
type column struct{ field, name string }

// columns returns the columns that a Mapping names.
func (m *mapped) columns() []column {
	list := []column{
		{"id", m.ID}, {"text", m.Text}, {"title", m.Title}, {"section", m.Section}, {"document", m.Document}, {"ordinal", m.Ordinal},
		{"url", m.URL}, {"date", m.Date}, {"attributes", m.Attributes}, {"words", m.Lexemes}, {"vector", m.Vector}, {"generation", m.Generation},
	}
	for _, key := range slices.Sorted(maps.Keys(m.AttributeColumns)) {
		list = append(list, column{"attribute_columns." + key, m.AttributeColumns[key]})
	}
	return slices.DeleteFunc(list, func(c column) bool { return c.name == "" })
}

// lexemes is the expression that is searched by words. Its index must be of the same expression.
func (m *mapped) lexemes(table string) string {
	if m.Lexemes != "" {
		return table + quoteName(m.Lexemes)
	}
	return "to_tsvector(" + quoteText(m.Language) + "::regconfig, " + table + quoteName(m.Text) + ")"
}

// column returns a column of table t as text; NULL without a name.
func text(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return "coalesce(t." + quoteName(name) + "::text, " + otherwise + ")"
}

// attributes is the expression of the attributes of a row of t, of type jsonb.
func (m *mapped) attributes(found *shape, args *arguments) string {
	all := "'{}'::jsonb"
	if m.Attributes != "" {
		all = "coalesce(" + m.object(found) + ", '{}')"
	}
	var parts []string
	add := func(key, value string) { parts = append(parts, args.add(key)+"::text, "+value) }
	if m.URL != "" {
		add("url", "t."+quoteName(m.URL)+"::text")
	}
	if m.Date != "" {
		value := "t." + quoteName(m.Date) + "::text"
		if kind := found.types[m.Date]; kind == "date" || strings.HasPrefix(kind, "timestamp") {
			value = "to_char(t." + quoteName(m.Date) + ", 'YYYY-MM-DD')"
		}
		add("date", value)
	}
	for _, key := range slices.Sorted(maps.Keys(m.AttributeColumns)) {
		add(key, "t."+quoteName(m.AttributeColumns[key]))
	}
	if len(parts) == 0 {
		return all
	}
	return "(" + all + " || jsonb_strip_nulls(jsonb_build_object(" + strings.Join(parts, ", ") + ")))"
}

// object is the expression of the column of attributes of a row of t, of type jsonb. A json that
// jsonb refuses, as it has a NUL in it, becomes false, which is no object.
func (m *mapped) object(found *shape) string {
	column := "t." + quoteName(m.Attributes)
	if found.types[m.Attributes] != "json" {
		return column
	}
	return "(case when strpos(" + column + "::text, '\\u0000') > 0 then 'false' else " + column + "::jsonb end)"
}

// usable is true for the rows of t that can be found: those with a text, and whose attributes are
// an object.
func (m *mapped) usable(found *shape) string {
	where := "t." + quoteName(m.Text) + " is not null and t." + quoteName(m.ID) + " is not null"
	if m.Attributes != "" {
		where += " and coalesce(jsonb_typeof(" + m.object(found) + "), 'object') = 'object'"
	}
	return where
}

// document is the id of the document of a row of t.
func (m *mapped) document() string { return "t." + quoteName(cmp.Or(m.Document, m.ID)) + "::text" }

// ordinal is the number of a row of t in its document.
func (m *mapped) ordinal() string {
	if m.Ordinal == "" {
		return "0::bigint"
	}
	return "coalesce(t." + quoteName(m.Ordinal) + "::bigint, 0)"
}
