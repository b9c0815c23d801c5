package store_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/store"
)

// sqlFile makes a foreign SQLite database.
func sqlFile(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// files returns the names and contents of the files in a folder, except the lock.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() || e.Name() == "lock" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

// A foreign file is rejected with its name, by writers and followers, and not modified.
func TestForeign(t *testing.T) {
	f := func(name, want string, make func(t *testing.T, path string)) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "knowledge.db")
			make(t, path)
			before := files(t, dir)
			_, err := store.Open(t.Context(), dir, store.Options{})
			_, ro := store.OpenReadOnly(t.Context(), dir)
			for _, err := range []error{err, ro} {
				if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "the file was not modified") {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if diff := cmp.Diff(before, files(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
	write := func(data []byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func(statements ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { sqlFile(t, path, statements...) }
	}
	f("empty", "is empty", write(nil))
	f("text", "is not a database", write(bytes.Repeat([]byte("Dear diary, "), 1000)))
	f("short", "another application", write([]byte("x")))
	f("other", "another application (id 0x0)", run("CREATE TABLE t (a)"))
	f("marked", "another application (id 0x2a)", run("PRAGMA application_id = 42", "PRAGMA journal_mode = WAL", "CREATE TABLE state (version)"))
}

// A newer schema is rejected, with both versions, even if it is only in the log.
func TestNewerSchema(t *testing.T) {
	dir := t.TempDir()
	newer := append(store.Schema(), "CREATE TABLE future (a)", "CREATE TABLE more (a)")
	s, err := store.Open(t.Context(), dir, store.WithSchema(store.Options{}, newer))
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	before := files(t, dir)
	var schema *store.SchemaError
	_, err = store.Open(t.Context(), dir, store.Options{})
	_, ro := store.OpenReadOnly(t.Context(), dir)
	for _, err := range []error{err, ro} {
		if !errors.As(err, &schema) || schema.Have != len(newer) || schema.Know != len(store.Schema()) || !strings.Contains(err.Error(), "newer") {
			t.Errorf("got %v", err)
		}
	}
	after := files(t, dir)
	delete(before, "knowledge.db-shm") // SQLite may rebuild it at any time
	delete(after, "knowledge.db-shm")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

// A writer upgrades an older schema, completely or not at all; nothing is lost.
func TestUpgrade(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "kb")
	put(t, s, "kb", doc("a", 1))
	closeStore(t, s)
	newer := append(store.Schema(), "CREATE TABLE one (a)", "CREATE TABLE two (a)")
	broken := append(store.Schema(), "CREATE TABLE one (a)", "CREATE TABLE one (b)")
	if _, err := store.Open(t.Context(), dir, store.WithSchema(store.Options{}, broken)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("upgrade to schema %d", len(broken))) {
		t.Errorf("an upgrade that cannot be made: %v", err)
	}
	closeStore(t, follow(t, dir)) // still the old one
	s = open(t, dir, store.WithSchema(store.Options{}, newer))
	if got, err := s.Document(t.Context(), "kb", "a"); err != nil || !cmp.Equal(got.Document, doc("a", 1)) {
		t.Errorf("after the upgrade: %v, %v", got, err)
	}
}

// Folders may have any name.
func TestOddFolders(t *testing.T) {
	for _, name := range []string{"with space", "50%", "a?b#c", "ä", "a&_pragma=x", "deep/er"} {
		dir := filepath.Join(t.TempDir(), name)
		s := open(t, dir, store.Options{})
		create(t, s, "kb")
		if s.Path() != filepath.Join(dir, "knowledge.db") {
			t.Errorf("%s: the database is %s", name, s.Path())
		}
		if _, err := os.Stat(s.Path()); err != nil {
			t.Error(err)
		}
	}
}

// Replacing the database by a backup is noticed by processes that have it open.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	reader := follow(t, dir)
	data, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path()+".backup", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.Path()+".backup", s.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Version(t.Context()); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("got %v", err)
	}
}

// After Close the log is empty, so that the database file alone is a backup, and can be replaced
// by one.
func TestClosed(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "kb")
	reader := follow(t, dir)
	closeStore(t, s)
	if log := files(t, dir)["knowledge.db-wal"]; log != "" {
		t.Errorf("the log has %d bytes", len(log))
	}
	if b, err := reader.Bases(t.Context()); err != nil || len(b) != 1 {
		t.Errorf("a follower then sees %v, %v", b, err)
	}
}

// Reading a database with any bit flipped, or truncated anywhere, returns what was written, or an
// error that names the file.
//
// Row K3 of deploy/CONTRIBUTING.md.
func TestDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "kb", "other")
	var want []store.Document
	for i := range 12 {
		want = append(want, doc(string(rune('a'+i)), i))
	}
	put(t, s, "kb", want...)
	put(t, s, "other", doc("secret", 1))
	closeStore(t, s)
	whole, err := os.ReadFile(filepath.Join(dir, "knowledge.db"))
	if err != nil {
		t.Fatal(err)
	}
	noticed, cases := 0, 0
	f := func(what string, at int, data []byte) {
		cases++
		dir := t.TempDir()
		path := filepath.Join(dir, "knowledge.db")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		err := readAll(t, dir, want)
		if err == nil {
			return
		}
		noticed++
		if !strings.Contains(err.Error(), path) && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s at %d: %v", what, at, err)
		}
	}
	for i := range 100 {
		if testing.Short() && i%4 > 0 {
			continue
		}
		at := i * len(whole) / 100
		data := bytes.Clone(whole)
		data[at] ^= 1 << (i % 8)
		f("flipped", at, data)
	}
	for at := range 100 { // the header
		if at >= 28 && at%4 != 0 {
			continue // four-byte numbers
		}
		data := bytes.Clone(whole)
		data[at] ^= 0x81
		f("header", at, data)
	}
	for i := range 16 {
		at := i * len(whole) / 16
		f("cut", at, whole[:at])
	}
	if noticed*162 < 60*cases { // 60 of the 162 in a long run
		t.Errorf("only %d of %d were noticed", noticed, cases)
	}
	t.Logf("%d of %d noticed, %d bytes", noticed, cases, len(whole))
}

// readAll opens a folder and reads base kb; it returns the expected documents or an error.
func readAll(t *testing.T, dir string, want []store.Document) error {
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	base, err := s.Base(t.Context(), "kb")
	if err != nil {
		return err
	}
	if diff := cmp.Diff(total("kb", want...), base, ignoreTime); diff != "" {
		t.Error(diff)
	}
	for _, w := range want {
		got, err := s.Document(t.Context(), "kb", w.ID)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(w, got.Document); diff != "" {
			t.Error(diff)
		}
	}
	documents, err := entries(t.Context(), s, "kb")
	for _, d := range documents {
		if d.ID == "secret" {
			t.Error("another base's document")
		}
	}
	return err
}
