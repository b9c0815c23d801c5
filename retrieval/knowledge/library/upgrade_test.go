package library_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
)

// ageSegments marks the segments in a folder as being of an older format.
func (f *testFolder) ageSegments(dir string) {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.seg"))
	f.must(err)
	if len(files) == 0 {
		f.t.Fatal("no segments")
	}
	for _, name := range files {
		image, err := os.ReadFile(name)
		f.must(err)
		binary.LittleEndian.PutUint32(image[8:], binary.LittleEndian.Uint32(image[8:])-1)
		table := crc32.MakeTable(crc32.Castagnoli)
		binary.LittleEndian.PutUint32(image[12:], crc32.Update(crc32.Checksum(image[:12], table), table, image[16:32]))
		f.must(os.WriteFile(name, image, 0o600))
	}
}

// Segments of an older format are made again from the documents, in a writer and in a follower
// that starts before it; no file is read again, and the answers are the same.
func TestOldSegmentsAreMadeAgain(t *testing.T) {
	dir := t.TempDir()
	f := newFolder(t, knowledgetest.Handbook())
	l := opened(t, dir, library.Options{})
	f.sync(l)
	want := l.Base("kb").Content().Generation()
	f.must(l.Close())
	f.ageSegments(dir)

	told := 0
	old := func(trouble library.Trouble) {
		if told++; !errors.Is(trouble.Err, bm25.ErrVersion) {
			t.Errorf("trouble: %+v", trouble)
		}
	}
	check := func(l *library.Library) {
		t.Helper()
		if got := l.Base("kb").Content().Generation(); got != want {
			t.Errorf("generation %s, want %s", got, want)
		}
		sameAnswers(t, l.Base("kb"), fresh(t, documents(knowledgetest.Handbook())))
	}
	check(opened(t, dir, library.Options{ReadOnly: true, Trouble: old}))
	if told != 1 {
		t.Errorf("said %d times that segments are of another version", told)
	}
	l = opened(t, dir, library.Options{Trouble: old})
	check(l)
	if report := f.sync(l); report.Written != 0 || report.Unchanged != len(knowledgetest.Handbook()) {
		t.Errorf("read again: %+v", report)
	}
	if told == 0 {
		t.Error("nothing was old")
	}
	f.must(l.Close())
	check(opened(t, dir, library.Options{})) // without Trouble: they were kept
}
