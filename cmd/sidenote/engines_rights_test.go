package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/retrieval/engine/enginetest"
)

// A guarded is a Sidenote with the base docs in a Postgres of its own, in the role sidenote, which has
// a password and owns nothing.
type guarded struct {
	*process
	db             *enginetest.Postgres
	docs, password string // folder and file
	asked          int
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{db: enginetest.StartPostgres(t), docs: handbook(t), password: written(t, "password", "one")}
	u, err := url.Parse(g.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = nil
	config := func(user string) string {
		return written(t, user+".yaml", fmt.Sprintf("upstream: %s/v1\nknowledge: {docs: {engine: postgres, url: %q, user: %s, password: {file: %s}, path: %s}}\npolicies: {default: {retrieval: {deadline: 30s}}}\n",
			newRecorder(t).URL, u, user, g.password, g.docs))
	}
	done(t, "knowledge", "init", "docs", "--config", config("postgres"))
	enginetest.Exec(t, g.db.URL, `create role sidenote login password 'one'; grant usage on schema sidenote to sidenote;
		grant select, insert, update, delete on all tables in schema sidenote to sidenote; grant usage on all sequences in schema sidenote to sidenote`)
	g.db.Authenticate(t)
	g.process = serve(t, "--config", config("sidenote"))
	eventually(t, unless("sources are found", func() bool { return g.finds(t) }))
	return g
}

// finds reports whether a question that nobody asked before finds sources.
func (g *guarded) finds(t *testing.T) bool {
	t.Helper()
	g.asked++
	body := fmt.Sprintf(`{"query": "How many weeks of parental leave are there, in %d words?"}`, g.asked)
	code, answer := posted(t, g.admin+"/v1/search?tenant=default", "", body)
	return code == http.StatusOK && strings.Contains(answer, "leave.md")
}

// says waits until /readyz is ready, but has a reason with some text.
func (g *guarded) says(t *testing.T, text string) {
	t.Helper()
	eventually(t, func() string {
		status, reasons := g.readiness(t)
		if all := strings.Join(reasons, "\n"); status != http.StatusOK || !strings.Contains(all, text) {
			return fmt.Sprintf("/readyz: %d %q, want %q", status, all, text)
		}
		return ""
	})
}

// recovers waits until sources are found and /readyz has no reasons of the database.
func (g *guarded) recovers(t *testing.T, without string) {
	t.Helper()
	eventually(t, unless("sources are found again", func() bool { return g.finds(t) }))
	eventually(t, func() string {
		if _, reasons := g.readiness(t); strings.Contains(strings.Join(reasons, "\n"), without) {
			return fmt.Sprintf("/readyz: %q", reasons)
		}
		return ""
	})
}

// A password that is replaced in its file is used for the next connections, without a restart.
func TestPasswordOfAnEngineIsReplaced(t *testing.T) {
	g := newGuarded(t)
	const disconnect = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'sidenote'"
	replace := func(password string) {
		if err := os.WriteFile(g.password, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	enginetest.Exec(t, g.db.URL, "alter role sidenote password 'two'")
	replace("two")
	enginetest.Exec(t, g.db.URL, disconnect)
	failed := 0
	for range 10 {
		if !g.finds(t) {
			failed++
		}
	}
	if failed > 1 {
		t.Errorf("%d of 10 questions found nothing", failed)
	}

	enginetest.Exec(t, g.db.URL, "alter role sidenote password 'three-secret'; "+disconnect)
	g.says(t, "password authentication failed")
	if g.finds(t) {
		t.Error("sources without a password")
	}
	replace("three-secret")
	g.recovers(t, "password")
	g.stop()
	<-g.out.ended
	if strings.Contains(g.out.text.String(), "three-secret") {
		t.Error("the password is in the log")
	}
}

// Rights that are revoked while serving and writing are named by /readyz, and come back with a grant.
func TestRightsOfAnEngineAreRevoked(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	enginetest.Exec(t, g.db.URL, "revoke select on all tables in schema sidenote from sidenote")
	g.says(t, "permission denied for table")
	g.says(t, "the role needs select")
	if g.finds(t) {
		t.Error("sources without the right to read them")
	}
	enginetest.Exec(t, g.db.URL, "grant select on all tables in schema sidenote to sidenote")
	g.recovers(t, "permission denied")

	enginetest.Exec(t, g.db.URL, "revoke insert on sidenote.documents from sidenote")
	if err := os.WriteFile(filepath.Join(g.docs, "pets.md"), []byte("# Pets\n\nAardvarks may come on Fridays.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.says(t, "permission denied for table documents")
	g.says(t, "the role needs select, insert")
	if n := documentsOf(t, g.admin, "docs"); n != 2 || !g.finds(t) {
		t.Errorf("%d documents without the right to write", n)
	}
	enginetest.Exec(t, g.db.URL, "grant insert on sidenote.documents to sidenote")
	eventually(t, unless("the new document is written", func() bool { return documentsOf(t, g.admin, "docs") == 3 }))
	g.recovers(t, "permission denied")
}

// tableConfig returns a configuration with the table public.pages of a database as the base wiki.
func tableConfig(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	user := u.User.Username()
	u.User = nil
	return written(t, "table.yaml", fmt.Sprintf("upstream: %s/v1\nknowledge: {wiki: {engine: postgres, url: %q, user: %s, table: public.pages, columns: {id: id, text: body, language: english}}}\npolicies: {default: {retrieval: {deadline: 30s}}}\n",
		newRecorder(t).URL, u, user))
}

// One row of a table of others that has no text leaves /readyz ready; the state of the base says it.
func TestSkippedRowsLeaveAnEngineReady(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, `create table pages (id int, body text); insert into pages values (1, 'Parental leave takes weeks'), (2, null), (3, 'Soup')`)
	p := serve(t, "--config", tableConfig(t, address))
	eventually(t, unless("the table is searched", func() bool {
		return strings.HasPrefix(foundAt(t, p.admin, "", map[string]any{"query": "parental leave"})[0], "wiki/1#0")
	}))
	if status, reasons := p.readiness(t); status != http.StatusOK || len(reasons) > 0 {
		t.Errorf("/readyz: %d %q", status, reasons)
	}
	_, told := get(t, p.admin+"/v1/knowledge/wiki")
	if strings.Count(told, "1 of 3 rows of public.pages are not searched") != 1 {
		t.Errorf("the state: %s", told)
	}
}

// A process is not ready before a table of others was there once; without it later, requests say that
// its search fails.
func TestMissingTableIsNotReady(t *testing.T) {
	t.Parallel()
	address := enginetest.Database(t)
	p := serve(t, "--ready", "knowledge", "--config", tableConfig(t, address))
	missing := func() bool {
		_, reasons := p.readiness(t)
		return strings.Contains(strings.Join(reasons, "\n"), "public.pages")
	}
	eventually(t, unless("the missing table is named", missing))
	if status, reasons := p.readiness(t); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d %q", status, reasons)
	}
	enginetest.Exec(t, address, `create table pages (id int, body text); insert into pages values (1, 'Parental leave takes 16 weeks')`)
	eventually(t, unless("it is ready", func() bool { status, _ := p.readiness(t); return status == http.StatusOK }))
	eventually(t, unless("its rows are sources", func() bool { return strings.HasPrefix(p.chats(t), "injected; sources=1") }))
	enginetest.Exec(t, address, `drop table pages`)
	eventually(t, unless("the missing table is named again", missing))
	if status := p.chats(t); !strings.Contains(status, "reason=retrieval-error") {
		t.Errorf("status %s", status)
	}
	if status, reasons := p.readiness(t); status != http.StatusOK {
		t.Errorf("/readyz: %d %q", status, reasons)
	}
}
