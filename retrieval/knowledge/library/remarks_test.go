package library_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
)

// A countingFS counts how often each file is opened, and fails for one.
type countingFS struct {
	fs.FS
	refused string

	mu     sync.Mutex
	opened map[string]int
}

func (c *countingFS) Open(name string) (fs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened[name]++
	if name == c.refused {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return c.FS.Open(name)
}

func (c *countingFS) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(c.FS, name) }
func (c *countingFS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(c.FS, name) }
func (c *countingFS) Lstat(name string) (fs.FileInfo, error)     { return fs.Lstat(c.FS, name) }
func (c *countingFS) ReadLink(name string) (string, error)       { return fs.ReadLink(c.FS, name) }

// Problems of a file are reported each time, but the file is read again only when it has changed,
// also across restarts.
func TestSyncRemembersWhatCannotBeRead(t *testing.T) {
	f := newFolder(t, map[string]string{
		"good.md":      "# Ant\n\nAn ant.",
		"noted.md":     "---\nyear: {a: b}\n---\nA note.",
		"bad.json":     `{"a":`,
		"part.jsonl":   `{"id":"a","text":"first"}` + "\n{broken\n",
		"tagged.jsonl": `{"id":"t","text":"Text.","tags":["a",1]}`,
		"nul.txt":      "a\x00b",
		"huge.txt":     strings.Repeat("x", folder.MaxFile+1),
		"bundle.js":    strings.Repeat("bee();", 500),
		"empty.json":   "[]",
		"refused.md":   "The system says no.",
	})
	dir := t.TempDir()
	l := opened(t, dir, library.Options{})
	sync := func() (folder.Report, map[string]int) {
		t.Helper()
		fsys := &countingFS{FS: os.DirFS(f.path), refused: "refused.md", opened: map[string]int{}}
		report, err := l.SyncFS(t.Context(), fsys, folder.Folder{ID: "kb", Path: f.path, FrontMatter: []string{"year"}})
		f.must(err)
		return report, fsys.opened
	}
	said := func(r folder.Report) (all []string) {
		for _, s := range r.Skipped {
			all = append(all, s.Path+" "+string(s.Kind)+" "+s.Reason)
		}
		for _, n := range r.Notes {
			all = append(all, n.Document+" "+n.Reason)
		}
		return all
	}
	first, opens := sync()
	if len(first.Skipped) != 7 || len(first.Notes) != 1 || opens["bad.json"] != 1 {
		t.Fatalf("%+v, opened %v", first, opens)
	}
	for _, restart := range []bool{false, true} {
		if restart {
			f.must(l.Close())
			l = opened(t, dir, library.Options{})
		}
		again, opens := sync()
		if diff := cmp.Diff(map[string]int{"refused.md": 1}, opens); diff != "" {
			t.Errorf("restart %v: opened (-want +got):\n%s", restart, diff)
		}
		if diff := cmp.Diff(said(first), said(again)); diff != "" || again.Files != first.Files || again.Written != 0 || again.Removed != 0 {
			t.Errorf("restart %v: %+v, at first %+v\n%s", restart, again, first, diff)
		}
	}

	// One changes and is still broken, one is repaired, one is removed.
	f.write("bad.json", `{"b":`)
	f.write("part.jsonl", `{"id":"a","text":"first"}`+"\n")
	f.must(os.Remove(filepath.Join(f.path, "nul.txt")))
	third, opens := sync()
	if diff := cmp.Diff(map[string]int{"refused.md": 1, "bad.json": 1, "part.jsonl": 1}, opens); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
	if len(third.Skipped) != len(first.Skipped)-2 {
		t.Errorf("skipped %v", said(third))
	}
	if fourth, opens := sync(); len(opens) != 1 || cmp.Diff(said(third), said(fourth)) != "" {
		t.Errorf("opened %v, said %v", opens, said(fourth))
	}
	f.write("nul.txt", "a\x00b") // the remark on the removed file was deleted, and is made again
	if _, opens := sync(); opens["nul.txt"] != 1 {
		t.Errorf("opened %v", opens)
	}
}
