package library_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
)

// memoryDir returns a folder on which fsync costs nothing, if there is one.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sidenote")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// stateFiles returns the files of a state folder with two bases, one of them with vectors.
func stateFiles(t *testing.T) map[string][]byte {
	t.Helper()
	dir := filepath.Join(memoryDir(t), "state")
	l := opened(t, dir, embedded(new(embedder)))
	newFolder(t, knowledgetest.Handbook()).sync(l)
	keep(t, l, "")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			files[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// answersOf returns the answers of a base; "" for failed searches.
func answersOf(b *knowledge.Base) (answers []string) {
	for _, text := range questions() {
		q := retrieval.Query{Text: text, Settings: retrieval.DefaultSettings()}
		res, err := retrieval.WithTexts{Next: b}.Retrieve(context.Background(), q)
		answer := ""
		if err == nil && !res.Reason.Failed() {
			for _, hit := range res.Sources {
				answer += fmt.Sprintf("%+v\n", hit)
			}
		}
		answers = append(answers, answer)
	}
	return answers
}

// A file of the state folder that is damaged anywhere, truncated, filled with zeros or unreadable
// does not crash the process: the folder opens and its bases answer as before, or the damage is
// reported.
func TestNoDamageOfStateIsFatal(t *testing.T) {
	files := stateFiles(t)
	dir := filepath.Join(memoryDir(t), "state")
	var want []string
	told := map[string]int{}
	check := func(name, how string, damage func(path string) error) {
		t.Helper()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := damage(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		var said atomic.Int32 // also from the background
		o := embedded(new(embedder))
		o.Trouble = func(library.Trouble) { said.Add(1) }
		l, err := library.New(t.Context(), dir, deps(), o)
		if err != nil {
			t.Fatalf("%s, %s: %v", name, how, err)
		}
		defer func() { _ = l.Close() }()
		if err := l.Open(t.Context(), true); err != nil {
			said.Add(1)
		} else if err := l.Load(t.Context(), nil); err != nil {
			said.Add(1)
		}
		b := l.Base("kb")
		if b.Content() == nil {
			if said.Load() == 0 && l.BaseError("kb") == nil {
				t.Errorf("%s, %s: kb is not there, and nothing is said", name, how)
			}
			told[name]++
			return
		}
		got := answersOf(b)
		if want == nil {
			want = got
		}
		for i, answer := range got {
			if answer != want[i] && answer != "" {
				t.Errorf("%s, %s: %s: got\n%s\nwant\n%s", name, how, questions()[i], answer, want[i])
			}
		}
		if said.Load() > 0 {
			told[name]++
		}
	}
	check("", "sound", func(string) error { return nil })
	if len(want) == 0 || !strings.Contains(want[0], "leave") {
		t.Fatalf("answers %q", want)
	}
	places := 60 // in each file
	switch {
	case os.Getenv("SIDENOTE_LONG") != "":
		places = 1000
	case testing.Short():
		places = 3
	}
	random := rand.New(rand.NewPCG(3, 4))
	for name, text := range files {
		if len(text) == 0 || strings.HasSuffix(name, "-shm") { // SQLite makes it again
			continue
		}
		for range places {
			at := random.IntN(8 * len(text))
			check(name, fmt.Sprintf("bit %d of byte %d of %d", at%8, at/8, len(text)), func(path string) error {
				flipped := slices.Clone(text)
				flipped[at/8] ^= 1 << (at % 8)
				return os.WriteFile(path, flipped, 0o600)
			})
		}
	}
	for name, text := range files {
		check(name, "empty", func(path string) error { return os.Truncate(path, 0) })
		check(name, "cut", func(path string) error { return os.Truncate(path, int64(len(text)/2)) })
		check(name, "zeros", func(path string) error { return os.WriteFile(path, make([]byte, len(text)), 0o600) })
		check(name, "not to be read", func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.MkdirAll(filepath.Join(path, "x"), 0o700)
		})
	}
	for _, suffix := range []string{".seg", ".vec", "admin-token", ".db"} {
		n := 0
		for name := range told {
			if strings.HasSuffix(name, suffix) {
				n += told[name]
			}
		}
		if n < 4 {
			t.Errorf("of *%s %d damages were told", suffix, n)
		}
	}
}
