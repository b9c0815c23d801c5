package library_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// A testFolder is a folder on disk whose files have distinct times.
type testFolder struct {
	t    testing.TB
	path string
	now  time.Time
}

func newFolder(t testing.TB, texts map[string]string) *testFolder {
	t.Helper()
	f := &testFolder{t: t, path: t.TempDir(), now: time.Now().Add(-1000 * time.Hour)}
	for name, text := range texts {
		f.write(name, text)
	}
	return f
}

func (f *testFolder) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *testFolder) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.path, name)
	f.must(os.MkdirAll(filepath.Dir(path), 0o755))
	f.must(os.WriteFile(path, []byte(text), 0o600))
	f.touch(name)
}

func (f *testFolder) touch(name string) {
	f.now = f.now.Add(time.Minute)
	f.must(os.Chtimes(filepath.Join(f.path, name), f.now, f.now))
}

// documents returns the documents of the folder.
func documents(texts map[string]string) map[string]chunk.Document {
	out := map[string]chunk.Document{}
	for name, text := range texts {
		out[name] = chunk.Document{ID: name, Text: text, Markdown: strings.HasSuffix(name, ".md")}
	}
	return out
}

// sync runs Sync and returns its report.
func (f *testFolder) sync(l *library.Library) folder.Report {
	f.t.Helper()
	report, err := l.Sync(f.t.Context(), folder.Folder{ID: "kb", Path: f.path}, nil)
	f.must(err)
	return report
}

// rows returns the rows of the documents: a rewritten document has a new one.
func rows(t testing.TB, l *library.Library) map[string]int64 {
	t.Helper()
	list, err := l.Documents(t.Context(), "kb", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, e := range list {
		out[e.ID] = e.Row
	}
	return out
}

func TestSync(t *testing.T) {
	texts := knowledgetest.Handbook()
	f := newFolder(t, texts)
	l := opened(t, filepath.Join(t.TempDir(), "state"), library.Options{})
	var last folder.Progress
	report, err := l.Sync(t.Context(), folder.Folder{ID: "kb", Path: f.path}, func(p folder.Progress) { last = p })
	if err != nil || report.Files != len(texts) || report.Chunks == 0 || report.Bytes == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	if last.Done != len(texts) || last.Files != len(texts) || last.Chunks != report.Chunks {
		t.Errorf("progress %+v", last)
	}
	sameAnswers(t, l.Base("kb"), fresh(t, documents(texts)))
	before := rows(t, l)

	// Unchanged documents are not written again, nor are files that were only touched.
	f.touch("leave.md")
	if again := f.sync(l); again.Files != report.Files || again.Chunks != report.Chunks || again.Unchanged != len(texts) || again.Added+again.Written != 0 {
		t.Errorf("again: %+v, first %+v", again, report)
	}
	if diff := cmp.Diff(before, rows(t, l)); diff != "" {
		t.Errorf("written again (-before +after):\n%s", diff)
	}
	if e, err := l.Document(t.Context(), "kb", "leave.md"); err != nil || !e.Modified.Equal(f.now) || e.Source != "leave.md" {
		t.Errorf("touched: %+v, %v", e, err)
	}

	texts["leave.md"], texts["new.txt"] = "# Leave\n\nNo more parental leave.\n", "A new one."
	delete(texts, "office.md")
	f.write("leave.md", texts["leave.md"])
	f.write("new.txt", texts["new.txt"])
	f.must(os.Remove(filepath.Join(f.path, "office.md")))
	if report := f.sync(l); report.Removed != 1 || !slices.Equal(report.Gone, []string{"office.md"}) || report.Files != len(texts) ||
		report.Added != 1 || report.Written != 2 || report.Unchanged != len(texts)-2 {
		t.Errorf("changed: %+v", report)
	}
	sameAnswers(t, l.Base("kb"), fresh(t, documents(texts)))
	after := rows(t, l)
	if after["leave.md"] == before["leave.md"] || after["travel.md"] != before["travel.md"] {
		t.Error("only what changed should be written")
	}
}

// A file that was written a moment ago may be written again with the same time.
func TestSyncDoesNotTrustFreshTimes(t *testing.T) {
	f := newFolder(t, nil)
	l := opened(t, store.Memory, library.Options{})
	now := time.Now()
	for _, text := range []string{"ant", "bee"} {
		path := filepath.Join(f.path, "a.txt")
		f.must(os.WriteFile(path, []byte(text), 0o600))
		f.must(os.Chtimes(path, now, now))
		f.sync(l)
		sameAnswers(t, l.Base("kb"), fresh(t, documents(map[string]string{"a.txt": text})))
	}
}

// Images and archives give all versions of a file the same time: if the system provides the change
// time, another version of the same size is noticed.
func TestSyncSeesWhatTimesHide(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not tell")
	}
	f := newFolder(t, nil)
	l := opened(t, store.Memory, library.Options{})
	before := int64(0)
	for _, text := range []string{"ant", "bee"} {
		path := filepath.Join(f.path, "a.txt")
		for now := before; now == before; now = changeTime(t, path) { // its clock ticks slowly
			f.must(os.WriteFile(path, []byte(text), 0o600))
			f.must(os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
		}
		before = changeTime(t, path)
		f.sync(l)
		sameAnswers(t, l.Base("kb"), fresh(t, documents(map[string]string{"a.txt": text})))
	}
}

// Documents written by Put and documents of files coexist.
func TestSyncLeavesPut(t *testing.T) {
	texts := map[string]string{"a.md": "ant", "b.md": "bee"}
	f := newFolder(t, texts)
	l := opened(t, store.Memory, library.Options{})
	f.sync(l)
	put := chunk.Document{ID: "put", Text: "cat"}
	if n, err := l.Put(t.Context(), "kb", put); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	f.sync(l)
	want := documents(texts)
	want["put"] = put
	sameAnswers(t, l.Base("kb"), fresh(t, want))
	// A document of a file that Put overwrote is restored by the next Sync.
	if n, err := l.Put(t.Context(), "kb", chunk.Document{ID: "a.md", Text: "dog"}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	f.sync(l)
	sameAnswers(t, l.Base("kb"), fresh(t, want))
}

// denied is a file system in which some names cannot be read.
type denied struct {
	fstest.MapFS
	names map[string]bool
}

func (d denied) Open(name string) (fs.File, error) {
	if d.names[name] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.MapFS.Open(name)
}

func (d denied) ReadDir(name string) ([]fs.DirEntry, error) {
	if d.names[name] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.MapFS.ReadDir(name)
}

// Documents of files that cannot be read for now stay; those of files that are no longer text are
// removed.
func TestSyncKeepsUnreadable(t *testing.T) {
	texts := map[string]string{"a.md": "ant", "d/b.md": "bee", "d/e/c.md": "cat", "x.txt": "dog"}
	files := denied{fstest.MapFS{}, map[string]bool{}}
	for name, text := range texts {
		files.MapFS[name] = &fstest.MapFile{Data: []byte(text)}
	}
	l := opened(t, store.Memory, library.Options{})
	sync := func() map[string]folder.SkipKind {
		t.Helper()
		report, err := l.SyncFS(t.Context(), files, folder.Folder{ID: "kb"})
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]folder.SkipKind{}
		for _, s := range report.Skipped {
			kinds[s.Path] = s.Kind
		}
		return kinds
	}
	sync()
	files.names["a.md"], files.names["d"] = true, true
	files.MapFS["a.md"].ModTime = time.Now().Add(-time.Hour)
	files.MapFS["x.txt"] = &fstest.MapFile{Data: []byte("\xff\xfe\xff")}
	want := map[string]folder.SkipKind{"a.md": folder.SkipUnreadable, "d": folder.SkipUnreadable, "x.txt": folder.SkipNotText}
	if diff := cmp.Diff(want, sync()); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	delete(texts, "x.txt")
	sameAnswers(t, l.Base("kb"), fresh(t, documents(texts)))

	files.names["a.md"], files.names["d"] = false, false
	files.MapFS["a.md"].Data = []byte("ant elk")
	texts["a.md"] = "ant elk"
	sync()
	sameAnswers(t, l.Base("kb"), fresh(t, documents(texts)))
}

// A folder that does not exist changes nothing.
func TestSyncWithoutFolder(t *testing.T) {
	texts := knowledgetest.Handbook()
	f := newFolder(t, texts)
	l := opened(t, store.Memory, library.Options{})
	f.sync(l)
	if _, err := l.Sync(t.Context(), folder.Folder{ID: "kb", Path: f.path + "x"}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	sameAnswers(t, l.Base("kb"), fresh(t, documents(texts)))
}

// Documents that another version has cut have another generation, and are cut again.
func TestReaderVersion(t *testing.T) {
	texts, dir := knowledgetest.Handbook(), t.TempDir()
	f := newFolder(t, texts)
	open := func(version string, neutralise func(_, text string) string) *library.Library {
		t.Helper()
		l, err := library.OpenLoaded(t.Context(), dir, knowledge.Deps{Counter: knowledgetest.FourBytes{}, Version: version, Neutralise: neutralise}, library.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	generations := map[string]bool{}
	shout := open("shouts", func(_, text string) string { return strings.ToUpper(text) })
	f.sync(shout)
	generations[shout.Base("kb").Ref().Generation] = true
	f.must(shout.Close())
	l := open("test", nil)
	defer func() { f.must(l.Close()) }()
	generations[l.Base("kb").Ref().Generation] = true
	f.sync(l)
	generations[l.Base("kb").Ref().Generation] = true
	if len(generations) != 3 {
		t.Errorf("generations are mistaken for one another: %v", generations)
	}
	sameAnswers(t, l.Base("kb"), fresh(t, documents(texts)))
}

// A record's own attributes are weaker than the folder's, and what is left out is reported by
// every Sync.
func TestRecordAttributes(t *testing.T) {
	f := newFolder(t, map[string]string{
		"public/faq.jsonl": `{"id":"q","text":"ant","audience":"everyone","owner":"hr","year":2024}` + "\n",
		"public/a.md":      "---\nlang: {x: y}\n---\nbee",
	})
	rules := folder.Folder{ID: "kb", Path: f.path, Attributes: map[string]any{"year": 1}, PathPattern: "{audience}/**", FrontMatter: []string{"lang"}}
	l := opened(t, store.Memory, library.Options{})
	var reports [2]folder.Report
	for i := range reports {
		var err error
		if reports[i], err = l.Sync(t.Context(), rules, nil); err != nil {
			t.Fatal(err)
		}
	}
	want := []folder.Note{{Document: "public/a.md", Reason: `attribute "lang": is a YAML mapping, neither a scalar nor a list of strings`}}
	if diff := cmp.Diff([2][]folder.Note{want, want}, [2][]folder.Note{reports[0].Notes, reports[1].Notes}); diff != "" || reports[1].Written != 0 {
		t.Errorf("%d written again; notes (-want +got):\n%s", reports[1].Written, diff)
	}
	if s := reports[0].Summary(); s != "attributes left out of 1 file (public/a.md)" {
		t.Errorf("summary %q", s)
	}
	c := l.Base("kb").Content()
	got := []map[string]any{c.DocumentAt(0).Attributes, c.DocumentAt(1).Attributes}
	if diff := cmp.Diff([]map[string]any{{"year": 1.0, "audience": "public"}, {"year": 1.0, "audience": "public", "owner": "hr"}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// changeTime returns the change time of a file; 0 if the system does not provide it.
func changeTime(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return folder.ChangeTime(info)
}

// A generated file is read when .sidenoteignore requests it, and no longer when it does not,
// although the file itself has not changed.
func TestSyncGeneratedOnDemand(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": "ant", "bundle.js": strings.Repeat("bee();", 500)})
	l := opened(t, store.Memory, library.Options{})
	look := func() uint64 { return l.Look(t.Context(), folder.Folder{ID: "kb", Path: f.path}, func(string) {}) }
	check := func(generated, documents int) {
		t.Helper()
		n := 0
		for _, s := range f.sync(l).Skipped {
			if s.Kind == folder.SkipGenerated {
				n++
			}
		}
		if got := len(rows(t, l)); n != generated || got != documents {
			t.Errorf("%d generated files, %d documents; want %d, %d", n, got, generated, documents)
		}
	}
	check(1, 1)
	digest := look()
	f.write(".sidenoteignore", "!bundle.js\n")
	if look() == digest {
		t.Error("a watch does not see it")
	}
	check(0, 2)
	f.must(os.Remove(filepath.Join(f.path, ".sidenoteignore")))
	check(1, 1)
	if look() != digest {
		t.Error("what is there is the same again")
	}
}
