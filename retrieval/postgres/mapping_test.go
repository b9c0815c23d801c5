package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/postgres"
)

// articles creates a table that others write, with rows that cannot be read as they should.
const articles = `create extension vector;
create schema wiki;
create table wiki.articles (id bigint primary key, parent text, part int, title text, "Body" text, link text, day timestamptz,
  about jsonb, team text, tags text[], lexemes tsvector generated always as (to_tsvector('english', coalesce("Body", ''))) stored,
  embedding vector(3), changed bigint default 1);
create index on wiki.articles (parent);
insert into wiki.articles (id, parent, part, title, "Body", link, day, about, team, tags, embedding) values
  (1, 'leave', 0, 'Leave', 'Parental leave takes twenty weeks', 'https://x.example/1', '2024-03-05 12:00Z', '{"audience": "staff"}', 'hr', '{a,b}', '[1,0,0]'),
  (2, 'leave', 1, 'Leave', 'Parents tell their manager', null, null, '{"audience": "all"}', 'hr', '{}', '[0,1,0]'),
  (3, 'menu', 0, null, 'The canteen menu has soup', null, null, null, null, null, null),
  (4, 'null', 0, 'No text', null, null, null, '{}', null, null, '[0,0,1]'),
  (5, 'array', 0, 'Bad', 'Parental leave with bad attributes', null, null, '["staff"]', null, null, '[1,0,0]');`

func mapping() engine.Mapping {
	return engine.Mapping{
		Table: "wiki.articles", ID: "id", Text: "Body", Title: "title", Document: "parent", Ordinal: "part", URL: "link", Date: "day",
		Attributes: "about", AttributeColumns: map[string]string{"team": "team", "tags": "tags"}, Lexemes: "lexemes", Language: "english",
		Vector: "embedding", Space: "model/3", Dimensions: 3, Generation: "changed",
	}
}

func openTable(t *testing.T, address string, m engine.Mapping) *postgres.Server {
	t.Helper()
	return open(t, address, func(o *postgres.Options) { o.Mappings = map[string]engine.Mapping{"wiki": m} })
}

// Row-level security shows rows to their tenants only. Without a tenant nothing is found, whatever is
// shown for the sample.
func TestRowLevelSecurityOfATable(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, articles+`alter table wiki.articles enable row level security;
		create policy tenants on wiki.articles for select using (team = current_setting('app.tenant', true))`)
	reader := role(t, address, "wiki")
	s := open(t, as(t, address, reader), func(o *postgres.Options) {
		o.TenantAs, o.Mappings = "app.tenant", map[string]engine.Mapping{"wiki": mapping()}
	})
	for tenant, want := range map[string][]string{"hr": {"leave#0", "leave#1"}, "it": nil, "": nil} {
		found := search(t, s, &engine.Search{Bases: []string{"wiki"}, Question: "parental leave", Vector: []float32{1, 0, 0}, Depth: 5, Tenant: tenant})
		if got := names(found, byWords); !slices.Equal(got, want) {
			t.Errorf("%q finds %q, want %q", tenant, got, want)
		}
	}
	if sample, err := s.Sample(t.Context(), "wiki", 9); err != nil || len(sample) != 0 {
		t.Errorf("sample: %d rows, %v", len(sample), err)
	}
	if trouble := s.Trouble(); len(trouble) != 1 || !strings.Contains(trouble[0], "Run: create policy sidenote on wiki.articles") {
		t.Fatalf("trouble: %q", trouble)
	} else {
		_, policy, _ := strings.Cut(trouble[0], "Run: ")
		enginetest.Exec(t, address, policy)
	}
	if sample, err := s.Sample(t.Context(), "wiki", 9); err != nil || len(sample) != 3 || len(s.Trouble()) != 0 {
		t.Errorf("sample: %d rows, %v, trouble %q", len(sample), err, s.Trouble())
	}
	found := search(t, s, &engine.Search{Bases: []string{"wiki"}, Question: "parental leave", Vector: []float32{1, 0, 0}, Depth: 5})
	chunks, err := s.Passage(t.Context(), "wiki", "leave", 0, 9, nil, "")
	if len(found.Candidates) != 0 || len(chunks) != 0 || err != nil {
		t.Errorf("without a tenant: %d candidates, %d chunks, %v", len(found.Candidates), len(chunks), err)
	}
}

// A table of others is searched by words and by vector, and only rows that can be read are found.
func TestTableIsSearched(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, articles)
	s := openTable(t, address, mapping())
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := search(t, s, &engine.Search{Bases: []string{"wiki"}, Question: "parental leave's weeks?", Vector: []float32{1, 0, 0}, Depth: 5, Neighbours: 5})
	if got, want := names(found, byWords), []string{"leave#0", "leave#1"}; !slices.Equal(got, want) {
		t.Errorf("by words: got %q, want %q", got, want)
	}
	if got, want := names(found, byVector), []string{"leave#0", "leave#1"}; !slices.Equal(got, want) {
		t.Errorf("by vector: got %q, want %q", got, want)
	}
	c := found.Candidates[slices.IndexFunc(found.Candidates, func(c engine.Candidate) bool { return c.Ordinal == 0 })]
	if c.Cosine != 1 || c.Chunks != 2 || c.After != "Parents tell their manager" || c.Name != "Leave" {
		t.Errorf("candidate: %+v", c)
	}
	for _, want := range []string{`"url":"https://x.example/1"`, `"date":"2024-03-05"`, `"audience":"staff"`, `"team":"hr"`, `"tags":["a","b"]`} {
		if !strings.Contains(c.Attributes, want) {
			t.Errorf("attributes %s: want %s", c.Attributes, want)
		}
	}
	f := &filter.Filter{Type: filter.Eq, Key: "tags", Value: "b"}
	if got := names(search(t, s, &engine.Search{Bases: []string{"wiki"}, Question: "parents", Depth: 5, Filter: f}), byWords); !slices.Equal(got, []string{"leave#0"}) {
		t.Errorf("filtered: %q", got)
	}
	chunks, err := s.Passage(t.Context(), "wiki", "leave", 0, 9, nil, "")
	if err != nil || len(chunks) != 2 || chunks[1].Text != "Parents tell their manager" {
		t.Errorf("passage: %+v, %v", chunks, err)
	}
	sample, err := s.Sample(t.Context(), "wiki", 9)
	if err != nil || len(sample) != 3 {
		t.Errorf("sample: %+v, %v", sample, err)
	}
	before := mustState(t, s, "wiki")
	if before.Chunks != 3 || before.Space != "model/3" || before.Generation == "" || before.Generation != mustState(t, s, "wiki").Generation {
		t.Errorf("state: %+v", before)
	}
	enginetest.Exec(t, address, "update wiki.articles set changed = 2 where id = 3")
	if after := mustState(t, s, "wiki"); after.Generation == before.Generation {
		t.Error("the generation does not change with its column")
	}
	if _, err := s.Acquire(t.Context(), "wiki", "me", 1); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("acquire: %v", err)
	}
}

// Without a tsvector column the text itself is searched.
func TestTableWithoutLexemes(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, articles)
	m := engine.Mapping{Table: "wiki.articles", ID: "id", Text: "Body", Language: "english"}
	s := openTable(t, address, m)
	if got := names(search(t, s, &engine.Search{Bases: []string{"wiki"}, Question: "soup 'of \\ the day", Depth: 5}), byWords); !slices.Equal(got, []string{"3#0"}) {
		t.Errorf("got %q", got)
	}
	if err := s.Filterable("wiki", &filter.Filter{Type: filter.Eq, Key: "team", Value: "hr"}); err == nil || !strings.Contains(err.Error(), `"team"`) {
		t.Errorf("a filter by what the table does not have: %v", err)
	}
}

// A table that is not as the mapping says is refused, with the names of what is wrong.
func TestTableIsRefused(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, articles)
	for want, change := range map[string]func(*engine.Mapping){
		`table "wiki.none" does not exist`:              func(m *engine.Mapping) { m.Table = "wiki.none" },
		`section: table wiki.articles has no column "x`: func(m *engine.Mapping) { m.Section = "x" },
		`"title" has type text, want tsvector`:          func(m *engine.Mapping) { m.Lexemes = "title" },
		`"team" has type text, want jsonb or json`:      func(m *engine.Mapping) { m.Attributes = "team" },
		`has 3 dimensions, the model 4`:                 func(m *engine.Mapping) { m.Dimensions = 4 },
		`"team" has type text, want vector or halfvec`:  func(m *engine.Mapping) { m.Vector = "team" },
	} {
		m := mapping()
		change(&m)
		if err := openTable(t, address, m).Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A large table must have its indexes; the error says how to create them.
func TestLargeTableNeedsIndexes(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, articles+"update pg_class set reltuples = 1e8 where oid = 'wiki.articles'::regclass")
	for _, index := range []string{
		`create index concurrently on wiki.articles using gin ("lexemes")`,
		`create index concurrently on wiki.articles using hnsw (embedding vector_cosine_ops)`,
	} {
		err := openTable(t, address, mapping()).Check(t.Context())
		if err == nil || !strings.HasSuffix(err.Error(), "run: "+index) {
			t.Errorf("got %v, want %s", err, index)
		}
		enginetest.Exec(t, address, index)
		enginetest.Exec(t, address, "update pg_class set reltuples = 1e8 where oid = 'wiki.articles'::regclass")
	}
	s := openTable(t, address, mapping())
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if state := mustState(t, s, "wiki"); state.Chunks != 1e8 {
		t.Errorf("the rows of a large table were counted: %+v", state)
	}
	text := engine.Mapping{Table: "wiki.articles", ID: "id", Text: "Body", Language: "english"}
	err := openTable(t, address, text).Check(t.Context())
	index := `create index concurrently on wiki.articles using gin (to_tsvector('english'::regconfig, "Body"))`
	if err == nil || !strings.HasSuffix(err.Error(), "run: "+index) {
		t.Fatalf("got %v, want %s", err, index)
	}
	enginetest.Exec(t, address, index)
	enginetest.Exec(t, address, "update pg_class set reltuples = 1e8 where oid = 'wiki.articles'::regclass")
	if err := openTable(t, address, text).Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each row of a table has attributes of its own, so a filter applies to neighbours, too.
func TestFilterAppliesToNeighbours(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, `create table docs (id text, parent text, part int, body text, about jsonb); create index on docs (parent);
		insert into docs values ('1', 'h', 0, 'parental leave', '{"audience": "all"}'), ('2', 'h', 1, 'secret salaries', '{"audience": "board"}'),
			('3', 'h', -1, 'secret bonus', '{"audience": "board"}')`)
	s := openTable(t, address, engine.Mapping{Table: "docs", ID: "id", Text: "body", Document: "parent", Ordinal: "part", Attributes: "about", Language: "english"})
	q := &engine.Search{Bases: []string{"wiki"}, Question: "parental", Depth: 5, Neighbours: 5}
	if c := search(t, s, q).Candidates; len(c) != 1 || c[0].After != "secret salaries" || c[0].Before != "secret bonus" {
		t.Errorf("without a filter: %+v", c)
	}
	q.Filter = &filter.Filter{Type: filter.Eq, Key: "audience", Value: "all"}
	if c := search(t, s, q).Candidates; len(c) != 1 || c[0].Before != "" || c[0].After != "" {
		t.Errorf("with a filter: %+v", c)
	}
}

// Values that no attribute has do not hide a row from filters by its others.
func TestStrangeAttributes(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, `create table docs (id text, body text, about json);
		insert into docs values ('1', 'parental leave', '{"audience": "all", "pages": [1, 2], "by": {"name": "x"}, "until": null}'),
			('2', 'parental nul', '{"audience": "all", "x": "\u0000"}')`)
	s := openTable(t, address, engine.Mapping{Table: "docs", ID: "id", Text: "body", Attributes: "about", Language: "english"})
	f := &filter.Filter{Type: filter.Eq, Key: "audience", Value: "all"}
	found := search(t, s, &engine.Search{Bases: []string{"wiki"}, Question: "parental", Depth: 5, Filter: f})
	if c := found.Candidates; len(c) != 1 || c[0].Doc != "1" || c[0].Attributes != `{"audience":"all"}` {
		t.Errorf("found %+v", c)
	}
	chunks, err := s.Passage(t.Context(), "wiki", "1", 0, 1, f, "")
	if err != nil || len(chunks) != 1 || chunks[0].Attributes != `{"audience":"all"}` {
		t.Errorf("passage %+v, %v", chunks, err)
	}
}

// Questions and ids may hold what Postgres does not store.
func TestTextsThatPostgresRefuses(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, articles)
	s := openTable(t, address, mapping())
	for _, text := range []string{"soup\x00", "soup \xff"} {
		if got := names(search(t, s, &engine.Search{Bases: []string{"wiki"}, Question: text, Depth: 5}), byWords); !slices.Equal(got, []string{"menu#0"}) {
			t.Errorf("%q: %q", text, got)
		}
		if chunks, err := s.Passage(t.Context(), "wiki", text, 0, 1, nil, ""); err != nil || len(chunks) > 0 {
			t.Errorf("passage of %q: %+v, %v", text, chunks, err)
		}
	}
}

// Rows that cannot be found are counted and said, but are no trouble while others can be.
func TestSkippedRowsAreSaid(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, articles)
	s := openTable(t, address, mapping())
	said := func(remarks, trouble int, want string) {
		t.Helper()
		mustState(t, s, "wiki")
		all := slices.Concat(s.Remarks(), s.Trouble())
		if len(s.Remarks()) != remarks || len(s.Trouble()) != trouble || len(all) > 0 && !strings.Contains(all[0], want) {
			t.Errorf("remarks %q, trouble %q; want %s", s.Remarks(), s.Trouble(), want)
		}
	}
	said(1, 0, "2 of 5 rows of wiki.articles are not searched")
	enginetest.Exec(t, address, `update wiki.articles set changed = 2, "Body" = 'Text' where id = 4`)
	said(1, 0, "1 of 5 rows")
	enginetest.Exec(t, address, `update wiki.articles set changed = 3, about = null where id = 5`)
	said(0, 0, "")
	enginetest.Exec(t, address, `update wiki.articles set changed = 4, "Body" = null`)
	said(0, 1, "5 of 5 rows")
	enginetest.Exec(t, address, `delete from wiki.articles`)
	said(0, 0, "")
}

// Vectors of another model in a column without a number of dimensions are compared with none of ours,
// and their rows are found by words.
func TestVectorsOfAnotherModel(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, `create extension vector; create table docs (id text, body text, embedding vector);
		insert into docs values ('ours', 'parental leave', '[1,0,0]'), ('theirs', 'parental leave too', '[1,0,0,0]'), ('none', 'parental', null)`)
	m := engine.Mapping{Table: "docs", ID: "id", Text: "body", Language: "english", Vector: "embedding", Space: "model/3", Dimensions: 3}
	s := openTable(t, address, m)
	found := search(t, s, &engine.Search{Bases: []string{"wiki"}, Question: "parental", Vector: []float32{1, 0, 0}, Depth: 5})
	if got, want := names(found, byVector), []string{"ours#0"}; !slices.Equal(got, want) {
		t.Errorf("by vector: got %q, want %q", got, want)
	}
	if got, want := names(found, byWords), []string{"none#0", "ours#0", "theirs#0"}; !sameSet(got, want) {
		t.Errorf("by words: got %q, want %q", got, want)
	}
	found = search(t, s, &engine.Search{Bases: []string{"wiki"}, Question: "parental", Vector: []float32{1, 0, 0, 0}, Depth: 5})
	if got := names(found, byVector); len(got) > 0 || len(found.Candidates) != 3 {
		t.Errorf("a question of another model: %q by vector of %d candidates", got, len(found.Candidates))
	}
	if sample, err := s.Sample(t.Context(), "wiki", 9); err != nil || len(sample) != 3 {
		t.Errorf("sample: %+v, %v", sample, err)
	}
}

// What a column shows is noticed when the state is read next, and so is a column that is gone.
func TestTableChanges(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, articles)
	s := openTable(t, address, mapping())
	before := mustState(t, s, "wiki")
	enginetest.Exec(t, address, `insert into wiki.articles (id, parent, part, "Body", changed) values (6, 'more', 0, 'More soup', 2)`)
	if after := mustState(t, s, "wiki"); after.Generation == before.Generation || after.Chunks != before.Chunks+1 {
		t.Errorf("state %+v, then %+v", before, after)
	}
	enginetest.Exec(t, address, `alter table wiki.articles drop column changed`)
	first, second := mustState(t, s, "wiki").Trouble, mustState(t, s, "wiki").Trouble
	if first == "" || !strings.Contains(second, `generation: table wiki.articles has no column "changed"`) {
		t.Errorf("got %s, then %s", first, second)
	}
	enginetest.Exec(t, address, `drop table wiki.articles`)
	if why := mustState(t, s, "wiki").Trouble; !strings.Contains(why, "does not exist") {
		t.Errorf("without the table: %s", why)
	}
}

// What is wrong with one base is no trouble of the others in the same database.
func TestBasesInTroubleAlone(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, articles+"create table wiki.notes (id text, body text); insert into wiki.notes values ('a', 'A note')")
	user := role(t, address, "wiki")
	o := func(o *postgres.Options) {
		notes := engine.Mapping{Table: "wiki.notes", ID: "id", Text: "body", Language: "english"}
		o.Mappings = map[string]engine.Mapping{"wiki": mapping(), "notes": notes}
	}
	administrator := open(t, address, o)
	if err := administrator.Init(t.Context(), "own"); err != nil {
		t.Fatal(err)
	}
	l := acquire(t, administrator, "own")
	write(t, l, "01", "", []engine.Document{document("a", nil, "some text")})
	enginetest.Exec(t, address, "grant usage on schema sidenote to "+user+"; grant select on all tables in schema sidenote to "+user)
	expect := func(wiki, notes, own string) {
		t.Helper()
		bases := []string{"wiki", "notes", "own"}
		states, err := open(t, as(t, address, user), o).States(t.Context(), bases)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{wiki, notes, own} {
			why := states[i].Trouble
			if (why == "") != (want == "") || !strings.Contains(why, want) || (states[i].Generation == "") != (why != "") || states[i].Base != bases[i] {
				t.Errorf("state %+v, want trouble %q", states[i], want)
			}
		}
	}
	expect("", "", "")
	enginetest.Exec(t, address, "update pg_class set reltuples = 1e8 where oid = 'wiki.articles'::regclass")
	expect("has about 100000000 rows and no index", "", "")
	enginetest.Exec(t, address, "revoke select on wiki.notes from "+user)
	enginetest.Exec(t, address, "drop table wiki.articles")
	expect("does not exist", "permission denied", "")
	enginetest.Exec(t, address, "update sidenote.version set readable_by = 9; grant select on wiki.notes to "+user)
	expect("does not exist", "", engine.ErrSchema.Error())
}

// Ids with quotes and line breaks come back as they are, and nothing in them is run.
func TestStrangeIDs(t *testing.T) {
	address := enginetest.Database(t)
	ids := []string{"it's", "a\nb", `"quoted"`, `back\slash`, "'); drop table docs; --", ""}
	enginetest.Exec(t, address, `create table docs (id text, body text);
		insert into docs values ('it''s', 'parental'), (E'a\nb', 'parental'), ('"quoted"', 'parental'), (E'back\\slash', 'parental'), ('''); drop table docs; --', 'parental'), ('', 'parental'), (null, 'parental')`)
	s := openTable(t, address, engine.Mapping{Table: "docs", ID: "id", Text: "body", Language: "english"})
	var got []string
	for _, c := range search(t, s, &engine.Search{Bases: []string{"wiki"}, Question: "parental '); drop table docs; --", Depth: 9}).Candidates {
		got = append(got, c.Doc)
	}
	if !sameSet(got, ids) {
		t.Errorf("got %q, want %q", got, ids)
	}
	for _, id := range ids {
		f := &filter.Filter{Type: filter.Eq, Key: id, Value: id}
		if err := s.Filterable("wiki", f); err == nil {
			t.Errorf("a filter by %q", id)
		}
		if chunks, err := s.Passage(t.Context(), "wiki", id, 0, 1, nil, ""); err != nil || len(chunks) != 1 || chunks[0].Doc != id {
			t.Errorf("%q: %+v, %v", id, chunks, err)
		}
	}
}
