//go:build unix

package store_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/store"
)

// A model is the expected content of a folder after some steps of the script.
type model struct {
	bases   map[string]map[string]int // revisions of documents, by id, by base
	images  []string                  // of the segments of base kb
	vectors []string                  // of each segment; "" for none
}

// round is the number of distinct steps; then they repeat with the existing content.
const round = 13

func newModel() *model { return &model{bases: map[string]map[string]int{}} }

// step returns step j of the script, which is at most one transaction. It depends on j alone, and
// needs the results of the steps before it; there is no last one.
func step(j int) (run func(s *store.Store) error, apply func(m *model)) {
	ctx := context.Background()
	image := strings.Repeat(fmt.Sprintf("image %d ", j), 3000)
	vectors := strings.Repeat(fmt.Sprintf("vectors %d ", j), 1000)
	switch j % round {
	case 0:
		return createStep("kb")
	case 1:
		return createStep("t")
	case 2:
		return putStep("kb", j, 1)
	case 3:
		return putStep("t", j, 1)
	case 4:
		return segmentStep(image, "", false), func(m *model) { m.images, m.vectors = append(m.images, image), append(m.vectors, "") }
	case 5, 6, 10: // of a segment without any, in place of others, and of the segment that is dropped later
		return vectorsStep(vectors), func(m *model) { m.vectors[len(m.vectors)-1] = vectors }
	case 7:
		return putStep("kb", j, 3)
	case 8:
		return func(s *store.Store) error { return s.DeleteBase(ctx, "t") }, func(m *model) { delete(m.bases, "t") }
	case 9:
		return segmentStep(image, vectors, true), func(m *model) { m.images, m.vectors = []string{image}, []string{vectors} }
	case 11:
		gone := []string{"d2", "d3", "d4"}[:2+j/round%2]
		run = func(s *store.Store) error { return s.Delete(ctx, "kb", gone...) }
		return run, func(m *model) {
			maps.DeleteFunc(m.bases["kb"], func(id string, _ int) bool { return slices.Contains(gone, id) })
		}
	}
	run = func(s *store.Store) error {
		list, _, err := segments(ctx, s, "kb")
		if err != nil {
			return err
		}
		return s.DropSegments(ctx, "kb", list[0].Name)
	}
	return run, func(m *model) { m.images, m.vectors = m.images[1:], m.vectors[1:] }
}

func createStep(base string) (func(s *store.Store) error, func(m *model)) {
	run := func(s *store.Store) error { return s.CreateBase(context.Background(), base) }
	return run, func(m *model) {
		if m.bases[base] == nil {
			m.bases[base] = map[string]int{}
		}
	}
}

// putStep writes n documents at revision j, starting with number j/round % 5.
func putStep(base string, j, n int) (func(s *store.Store) error, func(m *model)) {
	var docs []store.Document
	for i := range n {
		docs = append(docs, doc(fmt.Sprintf("d%d", (j/round+i)%5), j))
	}
	run := func(s *store.Store) error {
		_, err := s.Put(context.Background(), base, docs)
		return err
	}
	return run, func(m *model) {
		for _, d := range docs {
			m.bases[base][d.ID] = j
		}
	}
}

// segmentStep writes a segment, with a vector file unless vectors is "".
func segmentStep(image, vectors string, replace bool) func(s *store.Store) error {
	return func(s *store.Store) error {
		ctx := context.Background()
		list, rows, err := segments(ctx, s, "kb")
		if err != nil {
			return err
		}
		var old []string
		for _, seg := range list {
			if replace {
				old = append(old, seg.Name)
			}
		}
		if vectors != "" {
			_, err = store.VectorFilesOf(s).PutSegment(ctx, "kb", []byte(image), []byte(vectors), rows, old...)
		} else {
			_, err = s.PutSegment(ctx, "kb", []byte(image), rows, old...)
		}
		return err
	}
}

// vectorsStep writes the vector file of the newest segment.
func vectorsStep(vectors string) func(s *store.Store) error {
	return func(s *store.Store) error {
		ctx := context.Background()
		list, _, err := segments(ctx, s, "kb")
		if err != nil {
			return err
		}
		_, err = store.VectorFilesOf(s).Put(ctx, "kb", list[len(list)-1].Name, []byte(vectors))
		return err
	}
}

// writeScript is run by a child process: it runs the steps from FROM to before TO, prints each
// completed one, and exits before its CRASH_AT-th change of the folder.
func writeScript() error {
	number := func(name string) int { n, _ := strconv.Atoi(os.Getenv(name)); return n }
	crash, n := number("CRASH_AT"), 0
	o := store.Before(store.Options{}, func(string) {
		if n++; n == crash {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	s, err := store.Open(context.Background(), os.Getenv("DIR"), o)
	if err != nil {
		return err
	}
	for j := number("FROM"); j < number("TO"); j++ {
		run, _ := step(j)
		if err := run(s); err != nil {
			return fmt.Errorf("step %d: %w", j, err)
		}
		fmt.Println(j)
	}
	return s.Close()
}

// After a kill before any change of the folder, the folder is in the state after the last
// completed step, or after the next one.
//
// Row K4 of deploy/CONTRIBUTING.md.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel() // waits for the disk
	if os.Getenv("CRASH_AT") != "" {
		t.Fatal("CRASH_AT is for the children")
	}
	step := 1
	if testing.Short() {
		step = 5
	}
	for n := 1; ; n += step {
		dir := t.TempDir()
		out, err := runChild(t, "write", "DIR="+dir, "FROM=0", fmt.Sprintf("TO=%d", round), fmt.Sprintf("CRASH_AT=%d", n))
		if err == nil {
			if n < 90 {
				t.Errorf("only %d steps", n)
			}
			t.Logf("killed at each of %d steps", n-1)
			return
		}
		if err.Error() != "signal: killed" {
			t.Fatalf("step %d: %v", n, err)
		}
		verify(t, dir, strings.Count(out, "\n"))
		if t.Failed() {
			t.Fatalf("killed before step %d, having done %q", n, strings.Fields(out))
		}
	}
}

// The process is killed at random times, repeatedly on the same folder.
//
// Row K4 of deploy/CONTRIBUTING.md.
func TestKilledAtAnyTime(t *testing.T) {
	t.Parallel()
	const rounds = 15
	dir, done := t.TempDir(), 0
	for range rounds {
		cmd := knowledgetest.Child(t, "write", "DIR="+dir, fmt.Sprintf("FROM=%d", done), "TO=1000000")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range rand.IntN(20) {
			if !lines.Scan() {
				t.Fatalf("the child ended: %s", &stderr)
			}
			done++
		}
		<-time.After(time.Duration(rand.IntN(5000)) * time.Microsecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			done++
		}
		if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
			t.Fatalf("%v: %s", err, &stderr)
		}
		done = verify(t, dir, done)
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d steps", done)
}

// verify opens the folder, checks that it is in the state after done steps or one more, and
// returns after how many.
func verify(t *testing.T, dir string, done int) int {
	t.Helper()
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	m := newModel()
	for j := range done {
		_, apply := step(j)
		apply(m)
	}
	diff := m.diff(t, s)
	if diff != "" {
		_, apply := step(done)
		apply(m)
		if other := m.diff(t, s); other != "" {
			t.Errorf("neither as after %d steps: %s\nnor as after one more: %s", done, diff, other)
		}
		done++
	}
	checkFolder(t, dir, s)
	return done
}

// diff returns the differences of the store from the model.
func (m *model) diff(t *testing.T, s *store.Store) string {
	t.Helper()
	bases, err := s.Bases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want []store.Base
	for _, id := range slices.Sorted(maps.Keys(m.bases)) {
		var docs []store.Document
		for d, revision := range m.bases[id] {
			docs = append(docs, doc(d, revision))
		}
		want = append(want, total(id, docs...))
	}
	if diff := cmp.Diff(want, bases, ignoreTime); diff != "" {
		return diff
	}
	for base, docs := range m.bases {
		chunks := 0
		for id, revision := range docs {
			got, err := s.Document(t.Context(), base, id)
			if err != nil {
				return err.Error()
			}
			if diff := cmp.Diff(doc(id, revision), got.Document); diff != "" {
				return diff
			}
			chunks += len(got.Chunks)
		}
		if b, err := s.Base(t.Context(), base); err != nil || b.Documents != len(docs) || b.Chunks != chunks {
			return fmt.Sprintf("%s says %+v, %v instead of %d chunks", base, b, err, chunks)
		}
	}
	list, _, err := segments(t.Context(), s, "kb")
	if err != nil {
		t.Fatal(err)
	}
	of, err := store.VectorFilesOf(s).Of(t.Context(), "kb")
	if err != nil {
		t.Fatal(err)
	}
	var images, vectors []string
	for _, seg := range list {
		image := []byte{}
		if file, is := of[seg.Name]; is {
			if image, err = store.VectorFilesOf(s).Image(file); err != nil {
				t.Fatal(err)
			}
		}
		vectors = append(vectors, string(image))
	}
	for _, seg := range list {
		image, err := s.Image(t.Context(), seg)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, string(image))
	}
	return cmp.Diff(m.images, images, cmpopts.EquateEmpty()) + cmp.Diff(m.vectors, vectors, cmpopts.EquateEmpty())
}

// checkFolder looks for unreferenced files and rows.
func checkFolder(t *testing.T, dir string, s *store.Store) {
	t.Helper()
	list, _, err := segments(t.Context(), s, "kb")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "segments"))
	of, ofErr := store.VectorFilesOf(s).Of(t.Context(), "kb")
	if err != nil || ofErr != nil || len(files) != len(list)+len(of) {
		t.Errorf("%d files for %d segments, %d of them with vectors, %v, %v", len(files), len(list), len(of), err, ofErr)
	}
	db, err := sql.Open("sqlite", "file://"+s.Path()+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for query, want := range map[string]string{
		"PRAGMA integrity_check":                                                                                    "ok",
		"SELECT count(*) FROM pragma_foreign_key_check":                                                             "0",
		"SELECT count(*) FROM chunk WHERE row >> 20 NOT IN (SELECT row FROM document)":                              "0",
		"SELECT count(*) FROM document WHERE chunks <> (SELECT count(*) FROM chunk WHERE row >> 20 = document.row)": "0",
		unlisted: "0", strays: "0",
	} {
		var got string
		if err := db.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %s, %v", query, got, err)
		}
	}
}

// The bytes of a file are on disk before its name, and its name before the database refers to it.
//
// Row K6 of deploy/CONTRIBUTING.md.
func TestOrder(t *testing.T) {
	var steps []string
	s := open(t, t.TempDir(), store.Before(store.Options{}, func(step string) { steps = append(steps, step) }))
	if want := []string{"create: write", "create: close", "create: rename", "create: sync folder", "upgrade", "token: write", "token: sync file", "token: rename", "token: sync folder"}; !slices.Equal(steps, want) {
		t.Errorf("a new folder: %q", steps)
	}
	create(t, s, "kb")
	old, err := s.PutSegment(t.Context(), "kb", []byte("old"), nil)
	if err != nil {
		t.Fatal(err)
	}
	steps = nil
	if _, err := s.PutSegment(t.Context(), "kb", []byte("new"), nil, old.Name); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"segment: write", "segment: sync file", "segment: rename", "segment: sync folder",
		"begin", "forget segment", "insert segment", "raise version", "commit", "committed", "segment: remove",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
}
