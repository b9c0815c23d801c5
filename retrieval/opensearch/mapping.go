package opensearch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tidwall/gjson"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
)

// An index that others write is searched with the server's own analyzer: a match query for the question. Its
// documents are hits of one chunk, unless the mapping says which document they belong to. Everything
// that is read of it is checked, as nothing says who wrote it.

// defaultTTL is how long a generation is valid that only the number of rows identifies, if Mapping.TTL
// is 0.
const defaultTTL = time.Minute

// idField is the name of the id that a server gives to a document, which is no field of it.
const idField = "_id"

// Attributes of Mapping.URL and Mapping.Date.
const (
	urlAttribute  = "url"
	dateAttribute = "date"
)

// mapState is what is known of the fields of a Mapping.
type mapState struct {
	fields map[string]fieldType // by name
}

// A fieldType is the definition of a field.
type fieldType struct {
	Type       string               `json:"type"`
	Dimension  int                  `json:"dimension"` // of a knn_vector
	Dims       int                  `json:"dims"`      // of a dense_vector
	Fields     map[string]fieldType `json:"fields"`
	Normalizer string               `json:"normalizer"`
}

func checkMapping(m engine.Mapping) error {
	for name, value := range map[string]string{"index": m.Table, "id": m.ID, "text": m.Text} {
		if value == "" {
			return fmt.Errorf("%s: is missing", name)
		}
	}
	if strings.ContainsAny(m.Table, "/?#*,\\\"<>| ") || strings.HasPrefix(m.Table, "_") || strings.HasPrefix(m.Table, "-") {
		return fmt.Errorf("index: %.100q is not the name of one index or alias", m.Table)
	}
	if m.Vector != "" && m.Dimensions <= 0 {
		return fmt.Errorf("dimensions: of vector %s are missing", m.Vector)
	}
	if (m.Document == "") != (m.Ordinal == "") {
		return errors.New("document and ordinal: one is missing")
	}
	return nil
}

// Check returns an error that names what a base's index does not have: the index itself, a field, a
// field's type or the dimensions of its vectors. For a base of Sidenote's own it reports whether
// the base exists.
func (s *Server) Check(ctx context.Context, base string) error {
	m, mapped := s.mappings[base]
	if !mapped {
		_, err := s.known(ctx, []string{base})
		return err
	}
	v, err := s.fields(ctx, base, m)
	if err != nil {
		return err
	}
	for _, f := range mappedFields(m) {
		if _, ok := v.fields[f]; !ok {
			return fmt.Errorf("index %s: has no field %s", m.Table, f)
		}
	}
	words := cmp.Or(m.Lexemes, m.Text)
	if t := v.fields[words].Type; t != "text" && t != "match_only_text" {
		return fmt.Errorf("index %s: field %s is of type %s; only a text field can be searched by words", m.Table, words, t)
	}
	if t := v.fields[m.Document].Type; m.Document != "" && t != "keyword" {
		return fmt.Errorf("index %s: field %s is of type %s; only a keyword says which document a chunk is of", m.Table, m.Document, t)
	}
	if t := v.fields[m.Ordinal].Type; m.Ordinal != "" && !numeric(t) {
		return fmt.Errorf("index %s: field %s is of type %s, not a number", m.Table, m.Ordinal, t)
	}
	return checkVectorField(m, v.fields[m.Vector])
}

// checkVectorField returns an error if a field does not have the vectors of a Mapping.
func checkVectorField(m engine.Mapping, f fieldType) error {
	if m.Vector == "" {
		return nil
	}
	if f.Type != "knn_vector" && f.Type != "dense_vector" {
		return fmt.Errorf("index %s: field %s is of type %s, not a vector", m.Table, m.Vector, f.Type)
	}
	if n := max(f.Dimension, f.Dims); n != m.Dimensions {
		return fmt.Errorf("index %s: field %s has %d dimensions, its model has %d", m.Table, m.Vector, n, m.Dimensions)
	}
	return nil
}

// mappedFields returns the fields that a Mapping names.
func mappedFields(m engine.Mapping) []string {
	names := []string{m.Text, m.Title, m.Section, m.Document, m.Ordinal, m.URL, m.Date, m.Lexemes, m.Vector, m.Generation}
	if m.ID != idField {
		names = append(names, m.ID)
	}
	for _, f := range m.AttributeColumns {
		names = append(names, f)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(f string) bool { return f == "" })
}

// fields returns the definitions of the fields of a base's index, which it reads once.
func (s *Server) fields(ctx context.Context, base string, m engine.Mapping) (*mapState, error) {
	s.mu.Lock()
	v := s.views[base]
	s.mu.Unlock()
	if v != nil {
		return v, nil
	}
	body, err := s.client.call(ctx, "GET", "/"+pathOf(m.Table)+"/_mapping/field/*", nil)
	if missing(err) {
		return nil, fmt.Errorf("index %s: %w", m.Table, engine.ErrNoBase)
	}
	if err != nil {
		return nil, fmt.Errorf("read fields of %s: %w", m.Table, err)
	}
	if v, err = parseFields(body); err != nil {
		return nil, fmt.Errorf("read fields of %s: %w", m.Table, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.views[base] = v
	return v, nil
}

// parseFields reads the answer to a request for the mappings of fields. With several indexes behind
// an alias, a field counts if all have it.
func parseFields(body []byte) (*mapState, error) {
	var answer map[string]struct {
		Mappings map[string]struct {
			Mapping map[string]fieldType `json:"mapping"`
		} `json:"mappings"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	v, seen := &mapState{fields: map[string]fieldType{}}, map[string]int{}
	for _, index := range answer {
		for name, field := range index.Mappings {
			for _, definition := range field.Mapping { // one, by the last part of the name
				v.fields[name] = definition
				seen[name]++
			}
		}
	}
	for name, n := range seen {
		if n < len(answer) {
			delete(v.fields, name)
		}
	}
	return v, nil
}

// fieldOf returns the field that an attribute is filtered by, and whether there is one.
func (v *mapState) fieldOf(m engine.Mapping, key string) (name string, t fieldType, ok bool) {
	name, ok = m.AttributeColumns[key]
	switch {
	case ok:
	case key == urlAttribute && m.URL != "":
		name, ok = m.URL, true
	case key == dateAttribute && m.Date != "":
		name, ok = m.Date, true
	case m.Attributes != "":
		name, ok = m.Attributes+"."+key, true
	}
	if !ok {
		return "", t, false
	}
	t, ok = v.fields[name]
	if t.Type == "text" { // a multi-field is usual
		for _, sub := range sortedKeys(t.Fields) {
			if t.Fields[sub].Type == "keyword" {
				return name + "." + sub, t.Fields[sub], true
			}
		}
	}
	return name, t, ok
}

func numeric(t string) bool {
	return slices.Contains([]string{"long", "integer", "short", "byte", "double", "float", "half_float", "scaled_float", "unsigned_long"}, t)
}

// Filterable returns an error that names an attribute without a field, and a comparison that the type of
// a field does not have. For a Mapping it needs what Check or a search read before; until then
// only names are checked.
func (s *Server) Filterable(base string, f *filter.Filter) error {
	m, mapped := s.mappings[base]
	if !mapped || f == nil {
		return nil
	}
	s.mu.Lock()
	v := s.views[base]
	s.mu.Unlock()
	if v == nil {
		for key := range f.Keys {
			_, named := m.AttributeColumns[key]
			if !named && m.Attributes == "" && (key != urlAttribute || m.URL == "") && (key != dateAttribute || m.Date == "") {
				return fmt.Errorf("index %s: no field for attribute %q", m.Table, key)
			}
		}
		return nil
	}
	_, err := v.query(m, f)
	return err
}

// query returns the query that matches what a filter matches.
func (v *mapState) query(m engine.Mapping, f *filter.Filter) (object, error) {
	if f.Type == filter.And || f.Type == filter.Or {
		parts := make([]object, len(f.Filters))
		for i := range f.Filters {
			var err error
			if parts[i], err = v.query(m, &f.Filters[i]); err != nil {
				return nil, err
			}
		}
		if f.Type == filter.And {
			return object{"bool": object{"filter": parts}}, nil
		}
		return object{"bool": object{"should": parts, "minimum_should_match": 1}}, nil
	}
	key, values, ok := f.Comparison()
	if !ok {
		return matchNone, nil
	}
	name, t, ok := v.fieldOf(m, key)
	if !ok {
		return nil, fmt.Errorf("index %s: no field for attribute %q", m.Table, key)
	}
	q := comparison(f.Type, name, t, values)
	if q == nil {
		return nil, fmt.Errorf("index %s: field %s of type %s cannot be compared by %s", m.Table, name, t.Type, f.Type)
	}
	return q, nil
}

// comparison returns the query of a comparison, nil if the type of the field does not have it. A value of
// another type than the field's matches nothing.
func comparison(op filter.Type, field string, t fieldType, values []any) object {
	fits := func(v any) bool {
		switch v.(type) {
		case string:
			return t.Type == "keyword" || t.Type == "date"
		case float64:
			return numeric(t.Type)
		}
		return t.Type == "boolean"
	}
	exact := t.Type == "keyword" && t.Normalizer == "" || t.Type == "boolean" || numeric(t.Type)
	switch op {
	case filter.Eq, filter.In, filter.Ne, filter.Nin:
		if !exact {
			return nil
		}
		any := object{"terms": object{field: slices.DeleteFunc(slices.Clone(values), func(v any) bool { return !fits(v) })}}
		if op == filter.Eq || op == filter.In {
			return any
		}
		return object{"bool": object{"must_not": []object{any}}}
	case filter.Prefix:
		if !exact || numeric(t.Type) {
			return nil
		}
		if !fits(values[0]) || t.Type == "boolean" {
			return matchNone
		}
		return object{"prefix": object{field: object{"value": values[0]}}}
	case filter.Gt, filter.Gte, filter.Lt, filter.Lte:
		if !exact && t.Type != "date" {
			return nil
		}
		if !fits(values[0]) || t.Type == "boolean" {
			return matchNone
		}
		return object{"range": object{field: object{string(op): values[0]}}}
	}
	return matchNone
}

// viewBody is a search for what identifies the content of an index.
func viewBody(m engine.Mapping) object {
	body := object{"size": 0, "track_total_hits": true}
	if m.Generation != "" {
		body["aggs"] = object{"generation": object{"max": object{"field": m.Generation}}}
	}
	return body
}

// stateOf returns the state of an index for what viewBody found.
func stateOf(base string, m engine.Mapping, p part, now time.Time) engine.State {
	n := int(max(0, p.total))
	st := engine.State{Base: base, Documents: n, Chunks: n, Space: m.Space}
	if m.Vector != "" {
		st.Embedded, st.Dimensions = n, m.Dimensions
	}
	parts := []string{"index", m.Table, fmt.Sprint(n)}
	if m.Generation != "" {
		parts = append(parts, p.aggregations.Get("generation.value").Raw)
	} else {
		parts = append(parts, fmt.Sprint(now.UnixNano()/int64(cmp.Or(m.TTL, defaultTTL))))
	}
	sum := sha256.Sum256(mustJSON(parts))
	st.Generation = hex.EncodeToString(sum[:])
	return st
}

// view returns the state of an index that others write; the zero State if it does not exist.
func (s *Server) view(ctx context.Context, base string, m engine.Mapping) (engine.State, error) {
	p, err := s.page(ctx, pathOf(m.Table), viewBody(m))
	if missing(err) {
		return engine.State{Base: base}, nil
	}
	if err != nil {
		return engine.State{}, fmt.Errorf("read state of %s: %w", m.Table, err)
	}
	return stateOf(base, m, p, time.Now()), nil
}

// A mappedSearch is a search of an index that others write.
type mappedSearch struct {
	base    string
	mapping engine.Mapping
	arms
}

func (s *Server) mapped(ctx context.Context, base string, m engine.Mapping, q *engine.Search) (*mappedSearch, error) {
	d, err := s.kind(ctx)
	if err != nil {
		return nil, err
	}
	a := &mappedSearch{base: base, mapping: m, arms: arms{server: s, dialect: d, q: q, index: map[string]int{}, found: &engine.Found{}}}
	if q.Filter == nil {
		return a, nil
	}
	v, err := s.fields(ctx, base, m)
	if err != nil {
		return nil, err
	}
	f, err := v.query(m, q.Filter)
	if err != nil {
		return nil, err
	}
	a.visible = []object{f}
	return a, nil
}

func (s *Server) searchMapped(ctx context.Context, base string, m engine.Mapping, q *engine.Search) (*engine.Found, error) {
	if len(q.Bases) > 1 {
		return nil, fmt.Errorf("base %s: an index that others write must be searched alone", base)
	}
	a, err := s.mapped(ctx, base, m, q)
	if err != nil {
		return nil, err
	}
	if q.Question != "" && a.depth() > 0 {
		match := object{"match": object{cmp.Or(m.Lexemes, m.Text): object{"query": beginning(q.Question)}}}
		a.ask([]string{m.Table}, a.hits(object{"query": object{"bool": object{"must": match, "filter": a.visible}}}, a.depth()), a.readMappedWords)
	}
	if len(q.Vector) == m.Dimensions && m.Vector != "" && a.depth() > 0 {
		var f any
		if a.visible != nil {
			f = object{"bool": object{"filter": a.visible}}
		}
		nearest := a.dialect.nearest(m.Vector, q.Vector, max(a.depth(), leastNearest), f)
		a.ask([]string{m.Table}, a.hits(nearest, a.depth()), a.readMappedNearest)
	}
	a.ask([]string{m.Table}, viewBody(m), func(p part) error {
		a.found.States = []engine.State{stateOf(base, m, p, time.Now())}
		return nil
	})
	found, _, err := a.send(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.addNeighbours(ctx); err != nil {
		return nil, fmt.Errorf("neighbours: %w", err)
	}
	return found, nil
}

// addNeighbours reads the rows before and after the best candidates, if rows are chunks of documents. They
// have to pass the filter, too, as each row has attributes of its own.
func (a *mappedSearch) addNeighbours(ctx context.Context) error {
	if a.mapping.Document == "" || a.q.Neighbours <= 0 {
		return nil
	}
	best := map[string][]*engine.Candidate{} // by document
	var rows []object
	for i := range a.found.Candidates {
		c := &a.found.Candidates[i]
		if min(rankOf(c.ByWords), rankOf(c.ByVector)) > a.q.Neighbours || len(rows) == mostClauses {
			continue
		}
		best[c.Doc] = append(best[c.Doc], c)
		rows = append(rows, object{"bool": object{"filter": []object{
			{"term": object{a.mapping.Document: c.Doc}}, {"terms": object{a.mapping.Ordinal: []int{c.Ordinal - 1, c.Ordinal + 1}}},
		}}})
	}
	if rows == nil {
		return nil
	}
	next := &mappedSearch{base: a.base, mapping: a.mapping, arms: arms{
		server: a.server, dialect: a.dialect, q: &engine.Search{Bases: a.q.Bases}, index: map[string]int{}, found: &engine.Found{},
	}}
	query := object{"bool": object{"filter": a.visible, "should": rows, "minimum_should_match": 1}}
	chunks, err := next.list(ctx, object{"query": query}, min(2*len(rows), mostHits))
	if err != nil {
		return err
	}
	for _, n := range chunks {
		for _, c := range best[n.Doc] {
			switch n.Ordinal {
			case c.Ordinal - 1:
				c.Before = n.Text
			case c.Ordinal + 1:
				c.After = n.Text
			}
		}
	}
	return nil
}

// rankOf returns a rank, or the last one for a candidate that an arm did not find.
func rankOf(rank int) int {
	if rank == 0 {
		return math.MaxInt
	}
	return rank
}

// mostWords is the number of words of a question that are searched, as each is a clause and servers
// accept 1024 by default.
const mostWords = 800

// beginning returns the first words of a question. An ideograph counts as a word, and so does each
// part of what is joined by punctuation.
func beginning(question string) string {
	words, inside := 0, false
	for i, r := range question {
		letter := unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
		if letter && (!inside || unicode.Is(unicode.Han, r) || unicode.In(r, unicode.Hiragana, unicode.Katakana)) {
			if words++; words > mostWords {
				return question[:i]
			}
		}
		inside = letter
	}
	return question
}

// hits completes the body of a search that returns size documents with the fields that are read.
func (a *mappedSearch) hits(query object, size int) object {
	body := hits(query, size)
	body["_source"] = a.dialect.source(a.fields())
	return body
}

// fields returns the fields that are read of a hit.
func (a *mappedSearch) fields() []string {
	names := slices.DeleteFunc(mappedFields(a.mapping), func(f string) bool { return f == a.mapping.Lexemes && f != a.mapping.Text })
	if a.mapping.Attributes != "" {
		names = append(names, a.mapping.Attributes)
	}
	return names
}

func (a *mappedSearch) readMappedWords(p part) error {
	for rank, h := range p.hits {
		if c := a.row(h); c != nil {
			c.ByWords = rank + 1
		}
	}
	return nil
}

func (a *mappedSearch) readMappedNearest(p part) error {
	for rank, h := range p.hits {
		if c := a.row(h); c != nil {
			c.ByVector = rank + 1
		}
	}
	return nil
}

// row returns the candidate of a hit, nil for one that has no text or no id, or whose values are not of
// the types that they must be.
func (a *mappedSearch) row(h hit) *engine.Candidate {
	if i, ok := a.index[h.key()]; ok {
		return &a.found.Candidates[i]
	}
	m, src := a.mapping, h.source
	c := engine.Candidate{Chunk: engine.Chunk{
		Doc: text(src, m.ID), Text: text(src, m.Text), Name: text(src, m.Title), Section: text(src, m.Section), Attributes: attributesOf(m, src),
	}}
	if m.ID == idField {
		c.Doc = h.id
	}
	c.Chunks = 1
	if m.Document != "" {
		c.Doc, c.Chunks = text(src, m.Document), 0
		n := value(src, m.Ordinal)
		if n.Type != gjson.Number || n.Num < 0 || n.Num > math.MaxInt32 || n.Num != math.Trunc(n.Num) {
			return nil
		}
		c.Ordinal = int(n.Num)
	}
	if c.Doc == "" || strings.TrimSpace(c.Text) == "" {
		return nil
	}
	c.Name = cmp.Or(c.Name, c.Doc)
	if c.Vector = a.vector(src); c.Vector != nil {
		c.VectorKey = []byte(h.id)
		if len(a.q.Vector) > 0 {
			c.Cosine = cosineBetween(a.q.Vector, c.Vector)
		}
	}
	a.index[h.key()] = len(a.found.Candidates)
	a.found.Candidates = append(a.found.Candidates, c)
	return &a.found.Candidates[len(a.found.Candidates)-1]
}

// vector reads a vector; nil if there is none of the right dimensions.
func (a *mappedSearch) vector(src gjson.Result) []float32 {
	list := value(src, a.mapping.Vector)
	if a.mapping.Vector == "" || !list.IsArray() {
		return nil
	}
	v := make([]float32, 0, a.mapping.Dimensions)
	list.ForEach(func(_, f gjson.Result) bool {
		v = append(v, float32(f.Num))
		return len(v) <= a.mapping.Dimensions
	})
	if len(v) != a.mapping.Dimensions || checkVector(v) != nil {
		return nil
	}
	return v
}

// value returns a field of a source, whose name may be a path: a name with dots is the same as
// objects in one another.
func value(src gjson.Result, name string) gjson.Result {
	if name == "" {
		return gjson.Result{}
	}
	if v := src.Get(gjson.Escape(name)); v.Exists() {
		return v
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		if inner := src.Get(gjson.Escape(name[:i])); inner.IsObject() {
			if v := value(inner, name[i+1:]); v.Exists() {
				return v
			}
		}
	}
	return gjson.Result{}
}

// text returns a string or a number as text, "" for anything else.
func text(src gjson.Result, name string) string {
	switch v := value(src, name); v.Type {
	case gjson.String:
		return v.Str
	case gjson.Number:
		return v.Raw
	}
	return ""
}

// attributesOf returns the attributes of a hit. Those that are of no type that an attribute has are left out.
func attributesOf(m engine.Mapping, src gjson.Result) string {
	attributes := map[string]any{}
	add := func(key string, v gjson.Result) {
		if len(attributes) >= chunk.MaxAttributes || !v.Exists() || v.Type == gjson.Null {
			return
		}
		if a, err := chunk.Attribute(key, v.Value()); err == nil {
			attributes[key] = a
		}
	}
	object := value(src, m.Attributes)
	if object.Type == gjson.String && gjson.Valid(object.Str) {
		object = gjson.Parse(object.Str)
	}
	if object.IsObject() {
		object.ForEach(func(key, v gjson.Result) bool {
			add(key.Str, v)
			return true
		})
	}
	add(urlAttribute, value(src, m.URL))
	add(dateAttribute, value(src, m.Date))
	for _, key := range sortedKeys(m.AttributeColumns) {
		add(key, value(src, m.AttributeColumns[key]))
	}
	encoded, err := chunk.EncodeAttributes(attributes)
	if err != nil {
		return "{}"
	}
	return encoded
}

func (s *Server) passageMapped(ctx context.Context, base string, m engine.Mapping, doc string, first, end int, f *filter.Filter) ([]engine.Chunk, error) {
	a, err := s.mapped(ctx, base, m, &engine.Search{Bases: []string{base}, Filter: f})
	if err != nil {
		return nil, err
	}
	body := object{}
	switch {
	case m.Document != "":
		a.visible = append(a.visible, object{"term": object{m.Document: doc}}, object{"range": object{m.Ordinal: object{"gte": first, "lt": end}}})
		body["sort"] = []object{{m.Ordinal: "asc"}}
	case first > 0 || end <= 0:
		return nil, nil
	case m.ID == idField:
		a.visible = append(a.visible, object{"ids": object{"values": []string{doc}}})
	default:
		a.visible = append(a.visible, object{"term": object{m.ID: doc}})
	}
	body["query"] = object{"bool": object{"filter": a.visible}}
	chunks, err := a.list(ctx, body, min(end-first, mostHits))
	return slices.DeleteFunc(chunks, func(c engine.Chunk) bool { return c.Doc != doc }), err
}

// sampleMapped returns chunks in an order that is random, but the same for the same content.
func (s *Server) sampleMapped(ctx context.Context, base string, m engine.Mapping, n int) ([]engine.Chunk, error) {
	a, err := s.mapped(ctx, base, m, &engine.Search{Bases: []string{base}})
	if err != nil {
		return nil, err
	}
	random := object{"function_score": object{
		"query": object{"exists": object{"field": m.Text}}, "boost_mode": "replace", "random_score": object{"seed": 1, "field": "_seq_no"},
	}}
	return a.list(ctx, object{"query": random}, min(n, mostHits))
}

// list returns the chunks that a search finds.
func (a *mappedSearch) list(ctx context.Context, body object, size int) ([]engine.Chunk, error) {
	a.ask([]string{a.mapping.Table}, a.hits(body, max(0, size)), func(p part) error {
		for _, h := range p.hits {
			a.row(h)
		}
		return nil
	})
	found, _, err := a.send(ctx)
	if err != nil {
		return nil, err
	}
	chunks := make([]engine.Chunk, len(found.Candidates))
	for i := range found.Candidates {
		chunks[i] = found.Candidates[i].Chunk
	}
	return chunks, nil
}
