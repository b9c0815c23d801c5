//go:build unix

package library_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
)

// writeRevision fills a folder with at most n texts. Which files exist and their texts depend on
// the revision only.
func writeRevision(dir string, n, revision int) error {
	for i := range n {
		name := filepath.Join(dir, fmt.Sprintf("f%02d.md", i))
		if (i+revision)%7 == 0 {
			if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			continue
		}
		if i%3 == revision%3 || (i+revision)%7 == 1 {
			fresh := filepath.Join(dir, ".fresh") // complete, whenever we are killed
			err := errors.Join(os.WriteFile(fresh, []byte(revisionText(i, revision)), 0o600), os.Rename(fresh, name))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// revisionText has the same revision in each of its chunks.
func revisionText(i, revision int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# File %d\n\n", i)
	for s := range 4 {
		fmt.Fprintf(&b, "## Part %d\n\n%s\n\n", s, strings.Repeat(fmt.Sprintf("ant bee cat of revision %d in part %d. ", revision, s), 15))
	}
	return b.String()
}

// killed runs a child process until it has printed some lines, and a little longer, and kills it.
func killed(t *testing.T, what string, lines int, after time.Duration, env ...string) {
	t.Helper()
	cmd := knowledgetest.Child(t, what, env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(out)
	for range lines {
		if !scanner.Scan() {
			t.Fatalf("the child ended: %v, %v", scanner.Err(), cmd.Wait())
		}
		if strings.HasPrefix(scanner.Text(), "trouble") {
			t.Error(scanner.Text())
		}
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
}

// held returns the stored documents, reassembled, and checks that each has one revision.
func held(t *testing.T, l *library.Library) map[string][]string {
	t.Helper()
	list, err := l.Documents(t.Context(), "kb", "", 10_000)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, e := range list {
		d, err := l.Document(t.Context(), "kb", e.ID)
		if err != nil {
			t.Fatal(err)
		}
		revisions := map[string]bool{}
		for _, c := range d.Chunks {
			out[e.ID] = append(out[e.ID], c.Text)
			if _, rest, ok := strings.Cut(c.Text, "of revision "); ok {
				revisions[strings.Fields(rest)[0]] = true
			}
		}
		if len(revisions) > 1 {
			t.Errorf("%s is of revisions %v", e.ID, revisions)
		}
	}
	return out
}

// shown returns what the base answers from.
func shown(b *knowledge.Base) map[string][]string {
	out := map[string][]string{}
	for s := range b.Content().All() {
		out[s.Doc] = append(out[s.Doc], s.Text)
	}
	return out
}

// After a kill at any moment each document is the old or the new one, the base shows what is
// stored, and its answers are those of a fresh build.
func TestKilled(t *testing.T) {
	times := 12
	if testing.Short() {
		times = 2
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for _, what := range []string{"sync", "put"} {
		t.Run(what, func(t *testing.T) {
			dir, files := t.TempDir(), t.TempDir()
			for range times {
				killed(t, what, 1+r.IntN(12), time.Duration(r.IntN(40_000))*time.Microsecond, "DIR="+dir, "FILES="+files)
				l := opened(t, dir, library.Options{}) // without Trouble: nothing is damaged
				if len(l.Bases()) == 0 {
					_ = l.Close()
					continue
				}
				checkShown(t, l)
				checkAsFresh(t, l, what, files)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// checkShown compares what bases show with what is stored.
func checkShown(t *testing.T, l *library.Library) {
	t.Helper()
	want := held(t, l)
	got := shown(l.Base("kb"))
	if len(want) != len(got) {
		t.Fatalf("%d documents are held, %d shown", len(want), len(got))
	}
	for id := range want {
		if !slices.Equal(want[id], got[id]) {
			t.Fatalf("%s is shown otherwise than held", id)
		}
	}
}

// The same after a kill before every single change of the folder.
//
// Row K4 of deploy/CONTRIBUTING.md.
func TestKilledAtEveryStep(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 8
	}
	for at := 1; ; at += step {
		dir, files := t.TempDir(), t.TempDir()
		err := knowledgetest.Child(t, "steps", "DIR="+dir, "FILES="+files, fmt.Sprint("CRASH_AT=", at)).Run()
		if err == nil {
			if at < 30 {
				t.Errorf("it took %d steps only", at)
			}
			return
		}
		l := opened(t, dir, library.Options{})
		if len(l.Bases()) > 0 {
			checkShown(t, l)
			checkAsFresh(t, l, "sync", files)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A PutFile that was killed at any moment is completed by another one: the base has the documents of
// the file, and no others.
func TestKilledWhilePuttingFile(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 4
	}
	for at := 1; ; at += step {
		dir := t.TempDir()
		err := knowledgetest.Child(t, "file", "DIR="+dir, fmt.Sprint("CRASH_AT=", at)).Run()
		if err == nil {
			if at < 10 {
				t.Errorf("it took %d steps only", at)
			}
			return
		}
		l := opened(t, dir, library.Options{})
		if len(l.Bases()) > 0 {
			checkShown(t, l)
		}
		if err := l.CreateBase(t.Context(), "kb"); err != nil {
			t.Fatal(err)
		}
		if _, err := l.PutFile(t.Context(), "kb", fileOf(1)); err != nil {
			t.Fatal(err)
		}
		checkShown(t, l)
		if got := documentIDs(l); len(got) != 6 || got[0] != "a.jsonl#r3" || got[5] != "a.jsonl#r8" {
			t.Errorf("killed before step %d: %q", at, got)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkAsFresh compares with a fresh build of the same documents; for files this requires another
// Sync.
func checkAsFresh(t *testing.T, l *library.Library, what, files string) {
	t.Helper()
	want := map[string]chunk.Document{}
	if what == "put" {
		for id := range shown(l.Base("kb")) {
			want[id] = chunk.Document{ID: id, Text: "ant bee w" + id[1:]}
		}
		sameAnswers(t, l.Base("kb"), fresh(t, want))
		return
	}
	sameChunks(t, l)
	if _, err := l.Sync(t.Context(), folder.Folder{ID: "kb", Path: files}, nil); err != nil {
		t.Fatal(err)
	}
	c, _, err := knowledge.Load(t.Context(), folder.Folder{ID: "kb", Path: files}, deps())
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New("kb")
	b.Swap(c)
	sameAnswers(t, l.Base("kb"), b)
	if l.Base("kb").Content().Partial() {
		t.Error("it is read to the end, and does not say so")
	}
}

// sameChunks compares with a fresh build of the stored documents, before another Sync.
func sameChunks(t *testing.T, l *library.Library) {
	t.Helper()
	want := map[string]chunk.Document{}
	for id, chunks := range shown(l.Base("kb")) {
		_, rest, _ := strings.Cut(chunks[0], "of revision ")
		var i, revision int
		if _, err := fmt.Sscan(strings.Fields(rest)[0], &revision); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(id, "f%d.md", &i); err != nil {
			t.Fatal(err)
		}
		want[id] = chunk.Document{ID: id, Text: revisionText(i, revision), Markdown: true}
	}
	sameAnswers(t, l.Base("kb"), fresh(t, want))
}

// Without disk space a Sync fails, and the base answers as before; with space it continues.
//
// Row K5 of deploy/CONTRIBUTING.md.
func TestNoRoom(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	out, err := knowledgetest.Child(t, "full", "DIR="+dir, "FILES="+files).Output()
	if err != nil || !strings.Contains(string(out), "full after") {
		t.Fatalf("%v: %s", err, out)
	}
	l := opened(t, dir, library.Options{})
	checkAsFresh(t, l, "full", files)
}
