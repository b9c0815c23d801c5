package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/postgres"
)

// batch returns documents of n chunks with large vectors, which fill files of the server.
func batch(id string, n int) []engine.Document {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("Text %d of %s.", i, id)
	}
	d, r := document(id, nil, texts...), rand.New(rand.NewPCG(1, 2))
	embed(&d, func(int) []float32 { return unit(r, 2600) })
	return []engine.Document{d}
}

// rows counts the rows of the tables that a writer fills.
func rows(t *testing.T, address string) string {
	t.Helper()
	return enginetest.Value(t, address, `select (select count(*) from sidenote.documents) || ' documents, ' ||
		(select count(*) from sidenote.chunks) || ' chunks, ' || (select count(*) from sidenote.document_terms) || ' of terms'`)
}

// A disk that is full while documents are put is named by the error. Nothing is half written, and the
// same lease goes on when there is room.
func TestDiskFull(t *testing.T) {
	own := enginetest.StartPostgres(t)
	s := open(t, own.URL, nil)
	if err := s.Init(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	l := acquire(t, s, "a")
	write(t, l, "aa", "model", batch("one", 10))
	before := rows(t, own.URL)
	own.Kill(t)
	own.RestartFull(t, 17<<10)    // more than a segment of the log has
	large := batch("large", 1800) // 19 MB of vectors, without an index
	for range 2 {
		if err := l.Put(t.Context(), large, []string{"one"}); err == nil || !strings.Contains(err.Error(), "File too large") {
			t.Fatalf("put: %v", err)
		}
	}
	if got := rows(t, own.URL); got != before {
		t.Errorf("%s, before %s", got, before)
	}
	q := &engine.Search{Bases: []string{"a"}, Terms: terms("text"), Depth: 5000}
	if found := search(t, s, q); len(found.Candidates) != 10 || found.States[0].Generation != "aa" {
		t.Errorf("%d candidates of %+v", len(found.Candidates), found.States[0])
	}
	own.Kill(t)
	own.Restart(t)
	write(t, l, "bb", "model", large, "one")
	if found := search(t, s, q); len(found.Candidates) != 1800 || found.States[0].Generation != "bb" || found.States[0].Chunks != 1800 {
		t.Errorf("%d candidates of %+v", len(found.Candidates), found.States[0])
	}
}

// When the first server is gone the second is asked, by readers and by the writer, whatever
// connections they had. If that takes no writes, the writer returns to the first.
func TestFailoverToSecondServer(t *testing.T) {
	first, second := enginetest.StartPostgres(t), enginetest.Database(t)
	at, replica := parsed(t, first.URL), parsed(t, second)
	database := strings.TrimPrefix(replica.Path, "/")
	enginetest.Exec(t, first.URL, "create database "+database)
	primary := *replica
	primary.Host = at.Host
	for _, address := range []string{primary.String(), second} { // as a replica would have it
		s := open(t, address, nil)
		if err := s.Init(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		l := acquire(t, s, "a")
		write(t, l, "aa", "", []engine.Document{document("one", nil, "Some text.")})
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, second, func(o *postgres.Options) { o.URL = []*url.URL{&primary, replica} })
	q := &engine.Search{Bases: []string{"a"}, Terms: terms("text"), Depth: 3}
	search(t, s, q)
	first.Kill(t)
	for range 3 {
		if found := search(t, s, q); len(found.Candidates) != 1 {
			t.Errorf("found %+v", found.Candidates)
		}
	}
	l := acquire(t, s, "a")
	write(t, l, "bb", "", []engine.Document{document("two", nil, "More text.")})
	if found := search(t, s, q); len(found.Candidates) != 2 {
		t.Errorf("found %+v", found.Candidates)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	enginetest.Exec(t, second, "alter database "+database+" set default_transaction_read_only = on"+disconnectOthers)
	if _, err := s.Acquire(t.Context(), "a", "me", time.Minute); err == nil {
		t.Error("a server that takes no writes gave a lease")
	}
	first.Restart(t)
	acquire(t, s, "a")
}

func parsed(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// disconnectOthers ends the other connections of a database.
const disconnectOthers = "; select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"

// A server that takes no writes, as a standby, answers searches. A writer is told so, before and in
// the middle of a generation, and goes on where it was once the server takes writes.
func TestReadOnlyServer(t *testing.T) {
	s, address := newBase(t, "a")
	l := acquire(t, s, "a")
	write(t, l, "aa", "", []engine.Document{document("one", nil, "Some text.")})
	if err := l.Put(t.Context(), []engine.Document{document("two", nil, "More text.")}, nil); err != nil {
		t.Fatal(err)
	}
	database := address[strings.LastIndex(address, "/")+1:]
	enginetest.Exec(t, address, "alter database "+database+" set default_transaction_read_only = on"+disconnectOthers)
	before := rows(t, address)
	_, another := s.Acquire(t.Context(), "a", "me", time.Minute)
	for what, err := range map[string]error{
		"renew":   l.Renew(t.Context()),
		"put":     l.Put(t.Context(), []engine.Document{document("three", nil, "Text.")}, []string{"one"}),
		"commit":  l.Commit(t.Context(), "bb", ""),
		"acquire": another,
		"init":    s.Init(t.Context(), "b"),
	} {
		if err == nil || errors.Is(err, engine.ErrLeaseLost) || !strings.Contains(err.Error(), "the server takes no writes, as a standby") {
			t.Errorf("%s: %v", what, err)
		}
	}
	q := &engine.Search{Bases: []string{"a"}, Terms: terms("text"), Depth: 3}
	if found := search(t, s, q); len(found.Candidates) != 1 || found.States[0].Generation != "aa" || rows(t, address) != before {
		t.Errorf("found %+v of %+v; %s, before %s", found.Candidates, found.States, rows(t, address), before)
	}
	enginetest.Exec(t, address, "begin read write; alter database "+database+" reset default_transaction_read_only; commit"+disconnectOthers)
	if err := l.Commit(t.Context(), "bb", ""); err != nil {
		t.Fatal(err)
	}
	if found := search(t, s, q); len(found.Candidates) != 2 {
		t.Errorf("found %+v", found.Candidates)
	}
}

// A right that is revoked is named by the error, for readers and for a writer, who writes nothing
// without it. Both go on once it is granted again.
func TestRightsAreRevoked(t *testing.T) {
	s, address := newBase(t, "a")
	name := role(t, address, "sidenote")
	enginetest.Exec(t, address, "grant insert, update, delete on all tables in schema sidenote to "+name+"; grant usage on all sequences in schema sidenote to "+name)
	writer := open(t, as(t, address, name), nil)
	l := acquire(t, writer, "a")
	write(t, l, "aa", "", []engine.Document{document("one", nil, "Some text.")})
	q := &engine.Search{Bases: []string{"a"}, Terms: terms("text"), Depth: 3}
	more := []engine.Document{document("two", nil, "More text.")}
	check := func(right, table string, call func() error) {
		t.Helper()
		before := rows(t, address)
		enginetest.Exec(t, address, "revoke "+right+" on sidenote."+table+" from "+name)
		err := call()
		if !errors.Is(err, engine.ErrDenied) || !strings.Contains(err.Error(), "permission denied for table "+table) ||
			!strings.Contains(err.Error(), "; the role needs") || !strings.Contains(err.Error(), right) {
			t.Errorf("without %s on %s: %v", right, table, err)
		}
		if got := rows(t, address); got != before {
			t.Errorf("without %s on %s: %s, before %s", right, table, got, before)
		}
		enginetest.Exec(t, address, "grant "+right+" on sidenote."+table+" to "+name)
		if err := call(); err != nil {
			t.Errorf("with %s on %s: %v", right, table, err)
		}
	}
	searching := func() error { _, err := writer.Search(t.Context(), q); return err }
	check("select", "chunks", searching)
	check("select", "bases", searching)
	reading := func() error { _, err := writer.States(t.Context(), []string{"a"}); return err }
	for _, table := range []string{"version", "bases", "documents", "chunks", "terms"} { // also those that only a search reads
		check("select", table, reading)
	}
	putting := func() error { return l.Put(t.Context(), more, nil) }
	check("insert", "chunks", putting)
	check("delete", "documents", putting)
	check("update", "bases", func() error { return l.Commit(t.Context(), "bb", "") })
	if found := search(t, s, q); len(found.Candidates) != 2 {
		t.Errorf("found %+v", found.Candidates)
	}
}

// Leases depend on the clock of the server alone: here the clock of a writer is decades behind, and
// does not move while it waits for the server.
func TestLeasesFollowTheServersClock(t *testing.T) {
	s, address := newBase(t, "a")
	synctest.Test(t, func(t *testing.T) {
		if year := time.Now().Year(); year != 2000 {
			t.Fatalf("the writer's clock shows %d", year)
		}
		behind := open(t, address, nil)
		defer func() { _ = behind.Close() }()
		l := acquire(t, behind, "a")
		write(t, l, "aa", "", []engine.Document{document("one", nil, "Some text.")})
		if more, err := l.Clean(t.Context(), time.Hour); more || err != nil {
			t.Errorf("clean: %v, %v", more, err)
		}
	})
	left := "select extract(epoch from lease_until - clock_timestamp()) between 1 and 60 from sidenote.bases"
	if got := enginetest.Value(t, address, left); got != "t" {
		t.Errorf("the lease does not end within its minute: %s", enginetest.Value(t, address, "select lease_until || ' at ' || clock_timestamp() from sidenote.bases"))
	}
	if _, err := s.Acquire(t.Context(), "a", "me", time.Minute); !errors.Is(err, engine.ErrLeaseTaken) {
		t.Errorf("a lease of a writer whose clock is behind: %v", err)
	}
	if state := mustState(t, s, "a"); state.Generation != "aa" {
		t.Errorf("state: %+v", state)
	}
	enginetest.Exec(t, address, "update sidenote.bases set lease_until = clock_timestamp() - interval '1 millisecond'")
	synctest.Test(t, func(t *testing.T) {
		behind := open(t, address, nil)
		defer func() { _ = behind.Close() }()
		acquire(t, behind, "a")
	})
}
