package enginetest_test

import (
	"testing"

	"sidenote/retrieval/engine/enginetest"
)

// Each test has a database of its own in a server with pgvector.
func TestDatabasesAreSeparate(t *testing.T) {
	one, other := enginetest.Database(t), enginetest.Database(t)
	enginetest.Exec(t, one, "create extension vector; create table a (v vector(2)); insert into a values ('[3,4]')")
	if got := enginetest.Value(t, one, "select v <-> '[0,0]' from a"); got != "5" {
		t.Errorf("distance: got %s, want 5", got)
	}
	if got := enginetest.Value(t, other, "select to_regclass('a') is null"); got != "t" {
		t.Error("a table of one test is in the database of another")
	}
}

// A killed server starts again with what was committed.
func TestRestart(t *testing.T) {
	s := enginetest.StartPostgres(t)
	enginetest.Exec(t, s.URL, "create table a as select 7 as n")
	s.Kill(t)
	s.Restart(t)
	if got := enginetest.Value(t, s.URL, "select n from a"); got != "7" {
		t.Errorf("got %s, want 7", got)
	}
}
