package store_test

import (
	"database/sql"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/retrieval/knowledge/store"
)

const (
	// unlisted counts the bases whose blocks of stamps do not list all documents.
	unlisted = "SELECT count(*) FROM base b WHERE documents <> (SELECT coalesce(sum(documents), 0) FROM stamp WHERE base = b.row)"
	// strays counts invalid blocks, and blocks without documents of their base.
	strays = "SELECT count(*) FROM stamp WHERE documents <> length(list) / 40 OR NOT EXISTS (SELECT 1 FROM document d WHERE d.base = stamp.base AND d.row >> 9 = block)"
)

// tool changes a folder as another program would, and reads a number if there is one.
func tool(t *testing.T, dir string, statements ...string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "knowledge.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		rows, err := db.QueryContext(t.Context(), statement)
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		for rows.Next() {
			if err := rows.Scan(&n); err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// openOwn opens a folder until the test ends.
func openOwn(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// listed returns the stamps of a base, one reader after the other.
func listed(t *testing.T, s *store.Store, base string) (list []store.Stamp) {
	t.Helper()
	for k, err := range s.Known(t.Context(), base) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, store.Stamp{Row: k.Row, Hash: k.Hash})
	}
	return list
}

// sameStamps compares the stamps of a view with the documents. Ids ascend like rows.
func sameStamps(t *testing.T, what string, s *store.Store, base string) {
	t.Helper()
	v, err := s.View(t.Context(), base)
	if diff := cmp.Diff(listed(t, s, base), v.Others, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("%s: %s: %v (-documents +stamps):\n%s", what, base, err, diff)
	}
}

// many returns documents with ascending ids.
func many(first, n int) (docs []store.Document) {
	for i := range n {
		d := doc("d"+strconv.Itoa(100_000+first+i), 1)
		d.Chunks = d.Chunks[:1]
		docs = append(docs, d)
	}
	return docs
}

// Documents are listed correctly across block borders: written, replaced, touched and deleted, in
// bases that share a block; all are in blocks, so that none must be read.
func TestStampsAreThoseOfTheDocuments(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	check := func(what string) {
		t.Helper()
		for _, base := range []string{"kb", "other"} {
			sameStamps(t, what, s, base)
		}
		if n, odd := tool(t, dir, unlisted), tool(t, dir, strays); n != 0 || odd != 0 {
			t.Errorf("%s: %d bases are not listed, %d blocks are wrong", what, n, odd)
		}
	}
	create(t, s, "kb", "other")
	check("empty")
	put(t, s, "kb", many(0, 600)...)
	put(t, s, "other", many(0, 3)...)
	rows := put(t, s, "kb", many(600, 500)...)
	check("written")
	var ids []string
	for _, d := range many(100, 700) {
		ids = append(ids, d.ID)
	}
	if err := s.Delete(t.Context(), "kb", ids...); err != nil {
		t.Fatal(err)
	}
	check("deleted")
	put(t, s, "kb", many(1098, 2)...) // the last ones, with the same ids and new rows
	check("replaced")
	if err := s.Touch(t.Context(), "kb", []store.Known{{Row: rows[300], Size: 1, Hash: [32]byte{7}}, {Row: rows[301], Size: 9, Hash: many(901, 1)[0].Hash}}); err != nil {
		t.Fatal(err)
	}
	check("touched")
	if err := s.DeleteBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	create(t, s, "kb")
	check("deleted with the base")
}

// A damaged or missing block costs only time, and missing ones are written when the folder is
// opened; changes of documents by another program are noticed.
//
// Row K3 of deploy/CONTRIBUTING.md.
func TestStampsAreNotTrusted(t *testing.T) {
	for what, statement := range map[string]string{
		"flipped":  "UPDATE stamp SET list = CAST(substr(list, 1, 50) || x'00' || substr(list, 52) AS BLOB) WHERE block = 1",
		"cut":      "UPDATE stamp SET list = substr(list, 41) WHERE block = 0",
		"swapped":  "UPDATE stamp SET list = (SELECT list FROM stamp WHERE block = 0), crc = (SELECT crc FROM stamp WHERE block = 0), documents = (SELECT documents FROM stamp WHERE block = 0) WHERE block = 1",
		"missing":  "DELETE FROM stamp WHERE block = 1",
		"none":     "DELETE FROM stamp",
		"document": "UPDATE document SET hash = zeroblob(32), crc = 0 WHERE row = 5",
	} {
		dir := t.TempDir()
		s := openOwn(t, dir)
		create(t, s, "kb")
		put(t, s, "kb", many(0, 700)...)
		want, err := s.View(t.Context(), "kb")
		if err != nil {
			t.Fatal(err)
		}
		if tool(t, dir, statement); what == "document" {
			want.Others[4].Hash = [32]byte{}
		}
		for name, s := range map[string]*store.Store{"writer": s, "follower": follow(t, dir)} {
			got, err := s.View(t.Context(), "kb")
			if !slices.Equal(want.Others, got.Others) || err != nil {
				t.Errorf("%s, %s: %v (-want +got):\n%s", what, name, err, cmp.Diff(want.Others, got.Others))
			}
		}
		closeStore(t, s)
		s = open(t, dir, store.Options{})
		if got, err := s.View(t.Context(), "kb"); err != nil || !slices.Equal(want.Others, got.Others) {
			t.Errorf("%s: opened again: %v", what, err)
		}
		if n := tool(t, dir, unlisted); n != 0 && (what == "missing" || what == "none" || what == "document") {
			t.Errorf("%s: %d bases are not listed after the folder was opened", what, n)
		}
	}
}

// After an upgrade from the previous schema, all documents are listed.
func TestStampsAfterUpgrade(t *testing.T) {
	dir := t.TempDir()
	s := openOwn(t, dir)
	create(t, s, "kb", "empty")
	put(t, s, "kb", many(0, 700)...)
	want := listed(t, s, "kb")
	closeStore(t, s)
	later := []string{"DROP TRIGGER stamp_insert", "DROP TRIGGER stamp_delete", "DROP TRIGGER stamp_update"}
	for _, table := range []string{"stamp", "calibration", "verdicts", "segment_vectors", "vector_use", "vector_noted", "vector_space", "vector_spent", "vector"} {
		later = append(later, "DROP TABLE "+table)
	}
	tool(t, dir, append(later, "PRAGMA user_version = 3")...)
	s = open(t, dir, store.Options{})
	v, err := s.View(t.Context(), "kb")
	if diff := cmp.Diff(want, v.Others); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if n := tool(t, dir, unlisted); n != 0 {
		t.Errorf("%d bases are not listed", n)
	}
}

// A view lists the documents that were read by none of the given readers, whatever readers earlier
// views had, and reflects each change.
func TestViewListsOthers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	create(t, s, "kb")
	one, two := store.Reader{1}, store.Reader{2}
	docs := many(0, 1200)
	for i := range docs {
		docs[i].Hash = [32]byte{0: byte(1 + i%3), 31: byte(i)}
	}
	rows := put(t, s, "kb", docs...)
	check := func(what string) {
		t.Helper()
		for _, readers := range [][]store.Reader{{one}, {one}, {two}, {two, one}, nil} {
			var want []store.Stamp
			var all []int64
			for _, d := range listed(t, s, "kb") {
				if all = append(all, d.Row); !slices.Contains(readers, store.Reader(d.Hash[:8])) {
					want = append(want, d)
				}
			}
			for name, s := range map[string]*store.Store{"writer": s, "follower": follow(t, dir)} {
				v, err := s.View(t.Context(), "kb", readers...)
				if !slices.Equal(want, v.Others) || err != nil || !slices.Equal(v.Rows, all) {
					t.Errorf("%s, %s, readers %v: %d rows, want %d; %v (-want +got):\n%s", what, name, readers, len(v.Rows), len(all), err, cmp.Diff(want, v.Others, cmpopts.EquateEmpty()))
				}
			}
		}
	}
	check("written")
	if err := s.Touch(t.Context(), "kb", []store.Known{{Row: rows[600], Hash: [32]byte{0: 2, 31: 1}}}); err != nil {
		t.Fatal(err)
	}
	check("touched")
	if err := s.Delete(t.Context(), "kb", docs[601].ID); err != nil {
		t.Fatal(err)
	}
	check("deleted")
}
