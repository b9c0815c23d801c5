package postgres_test

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/postgres"
)

// as returns the URL of a database for another user.
func as(t *testing.T, address, user string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(user)
	return u.String()
}

// role creates a user that may only read, and drops it when the test ends.
func role(t *testing.T, address, schema string) string {
	t.Helper()
	name := readerOf(address)
	enginetest.Exec(t, address, "create role "+name+" login; grant usage on schema "+schema+" to "+name+"; grant select on all tables in schema "+schema+" to "+name)
	t.Cleanup(func() { enginetest.Exec(t, address, "drop owned by "+name+"; drop role "+name) })
	return name
}

// A user that may only read can search, and everything else is denied.
func TestReader(t *testing.T) {
	s, address := newBase(t, "a")
	d := document("one", nil, "Some text.")
	embed(&d, func(int) []float32 { return unit(rand.New(rand.NewPCG(1, 2)), 4) })
	l := acquire(t, s, "a")
	write(t, l, "aa", "model", []engine.Document{d})
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader := open(t, as(t, address, role(t, address, "sidenote")), nil)
	if state := mustState(t, reader, "a"); state.Generation != "aa" || state.Space != "model" {
		t.Errorf("state: %+v", state)
	}
	q := &engine.Search{Bases: []string{"a"}, Terms: terms("text"), Vector: d.Chunks[0].Vector, Depth: 3}
	if found := search(t, reader, q); len(found.Candidates) != 1 || found.Candidates[0].ByVector != 1 || found.Candidates[0].ByWords != 1 {
		t.Errorf("found %+v", found.Candidates)
	}
	if _, err := reader.Acquire(t.Context(), "a", "me", time.Minute); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("acquire: %v", err)
	}
	if err := reader.Init(t.Context(), "b"); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("init: %v", err)
	}
	enginetest.Exec(t, address, "revoke all on all tables in schema sidenote from "+readerOf(address))
	if _, err := reader.Search(t.Context(), q); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("search without permission: %v", err)
	}
	if _, err := reader.States(t.Context(), []string{"a"}); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("states without permission: %v", err)
	}
}

// A role that no administrator knows is not taken for one that lacks a permission.
func TestUnknownRole(t *testing.T) {
	s := open(t, as(t, enginetest.Database(t), "nobody_of_that_name"), nil)
	if err := s.Init(t.Context(), "a"); !errors.Is(err, engine.ErrLogin) || errors.Is(err, engine.ErrDenied) {
		t.Errorf("init: %v", err)
	}
}

// A user that may create no schema can fill one that an administrator made for it.
func TestSchemaOfAnAdministrator(t *testing.T) {
	address := enginetest.Database(t)
	name := role(t, address, "public")
	s := open(t, as(t, address, name), nil)
	if err := s.Init(t.Context(), "a"); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("init without a schema: %v", err)
	}
	enginetest.Exec(t, address, "create schema sidenote authorization "+name)
	if err := s.Init(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	write(t, acquire(t, s, "a"), "aa", "", []engine.Document{document("one", nil, "Some text.")})
	if trouble := s.Trouble(); len(trouble) != 0 {
		t.Errorf("trouble: %q", trouble)
	}
}

// readerOf returns the name of the user that may only read a database.
func readerOf(address string) string {
	return "reader_" + strings.TrimPrefix(address[strings.LastIndex(address, "/")+1:], "test_")
}

// Policies of the database apply to the tenant of a search, by words, by vector and by id.
func TestRowLevelSecurity(t *testing.T) {
	s, address := newBase(t, "a")
	r := rand.New(rand.NewPCG(1, 2))
	var documents []engine.Document
	for _, tenant := range []string{"acme", "umbrella"} {
		d := document(tenant, map[string]any{"tenant": tenant}, "A secret of "+tenant)
		embed(&d, func(int) []float32 { return unit(r, 4) })
		documents = append(documents, d)
	}
	write(t, acquire(t, s, "a"), "aa", "model", documents)
	enginetest.Exec(t, address, `alter table sidenote.documents enable row level security;
		create policy tenants on sidenote.documents using (filterable ->> 'tenant' = current_setting('app.tenant', true))`)
	reader := open(t, as(t, address, role(t, address, "sidenote")), func(o *postgres.Options) { o.TenantAs = "app.tenant" })
	for _, tenant := range []string{"acme", "umbrella", "", "acme' or true --"} {
		var want []string
		if tenant == "acme" || tenant == "umbrella" {
			want = []string{tenant + "#0"}
		}
		found := search(t, reader, &engine.Search{Bases: []string{"a"}, Terms: terms("secret"), Vector: documents[0].Chunks[0].Vector, Depth: 5, Tenant: tenant})
		if got := names(found, byWords); !slices.Equal(got, want) {
			t.Errorf("%q by words: %q", tenant, got)
		}
		if got := names(found, byVector); !slices.Equal(got, want) {
			t.Errorf("%q by vector: %q", tenant, got)
		}
		chunks, err := reader.Passage(t.Context(), "a", "acme", 0, 9, nil, tenant)
		if err != nil || len(chunks) > 0 != (tenant == "acme") {
			t.Errorf("%q by id: %d chunks, %v", tenant, len(chunks), err)
		}
	}
}

// Without pgvector bases are searched by words; their vectors are used once it is installed.
func TestWithoutVectorExtension(t *testing.T) {
	s, address := newBase(t, "a")
	enginetest.Exec(t, address, "drop extension vector cascade")
	d := document("one", nil, "Some text.")
	embed(&d, func(int) []float32 { return unit(rand.New(rand.NewPCG(1, 2)), 4) })
	mustState(t, s, "a")
	if trouble := s.Trouble(); len(trouble) != 0 {
		t.Errorf("trouble without vectors: %q", trouble)
	}
	wanting := open(t, address, func(o *postgres.Options) { o.Vectors = true })
	mustState(t, wanting, "a")
	if trouble := wanting.Trouble(); len(trouble) != 1 {
		t.Errorf("trouble of bases that are to have vectors: %q", trouble)
	}
	write(t, acquire(t, s, "a"), "aa", "model", []engine.Document{d})
	q := &engine.Search{Bases: []string{"a"}, Terms: terms("text"), Vector: d.Chunks[0].Vector, Depth: 3}
	found := search(t, s, q)
	if len(found.Candidates) != 1 || found.Candidates[0].ByVector != 0 || found.States[0].Space != "" {
		t.Errorf("found %+v, %+v", found.Candidates, found.States)
	}
	if trouble := s.Trouble(); len(trouble) != 1 || !strings.Contains(trouble[0], "create extension vector") {
		t.Errorf("trouble: %q", trouble)
	}
	enginetest.Exec(t, address, "create extension vector")
	if state := mustState(t, s, "a"); state.Space != "model" || len(s.Trouble()) != 0 {
		t.Errorf("state: %+v, trouble %q", state, s.Trouble())
	}
	if found := search(t, s, q); found.Candidates[0].ByVector != 1 {
		t.Errorf("found %+v", found.Candidates)
	}
}

// A schema of a later version is not read, and not changed.
func TestLaterSchema(t *testing.T) {
	s, address := newBase(t, "a")
	enginetest.Exec(t, address, "update sidenote.version set version = 7, readable_by = 7")
	if _, err := s.States(t.Context(), []string{"a"}); !errors.Is(err, engine.ErrSchema) {
		t.Errorf("states: %v", err)
	}
	if err := s.Init(t.Context(), "a"); !errors.Is(err, engine.ErrSchema) || !strings.Contains(err.Error(), "7") {
		t.Errorf("init: %v", err)
	}
	if _, err := s.Acquire(t.Context(), "a", "me", time.Minute); !errors.Is(err, engine.ErrSchema) {
		t.Errorf("acquire: %v", err)
	}
}

// The printed statements do what Init does, and can be run again.
func TestSetupIsWhatInitRuns(t *testing.T) {
	address := enginetest.Database(t)
	s := open(t, address, func(o *postgres.Options) { o.Namespace = "Odd_name" })
	setup, err := s.Setup(`it's \ a base`)
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Exec(t, address, setup)
	enginetest.Exec(t, address, setup)
	write(t, acquire(t, s, `it's \ a base`), "aa", "", []engine.Document{document("one", nil, "Text.")})
	if state := mustState(t, s, `it's \ a base`); state.Documents != 1 {
		t.Errorf("state: %+v", state)
	}
	if err := s.Init(t.Context(), `it's \ a base`); err != nil {
		t.Error(err)
	}
}
