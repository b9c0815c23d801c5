package folder_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// load reads a folder and returns the ids of its documents and what was skipped.
func load(t *testing.T, rules folder.Folder) (ids []string, skipped map[string]folder.SkipKind, report folder.Report) {
	t.Helper()
	c, report, err := knowledge.Load(t.Context(), rules, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	return idsOf(c), kinds(report), report
}

func idsOf(c *knowledge.Content) (ids []string) {
	for s := range c.All() {
		if s.Chunk == 0 {
			ids = append(ids, s.Doc)
		}
	}
	return ids
}

func kinds(r folder.Report) map[string]folder.SkipKind {
	m := map[string]folder.SkipKind{}
	for _, s := range r.Skipped {
		m[s.Path] = s.Kind
	}
	return m
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func utf16Of(text string, big bool) string {
	out := []byte{0xff, 0xfe}
	if big {
		out = []byte{0xfe, 0xff}
	}
	for _, u := range utf16.Encode([]rune(text)) {
		if big {
			out = append(out, byte(u>>8), byte(u))
		} else {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return string(out)
}

// Files that should not be read are not, files that cannot be read are reported, and the others
// are read.
func TestLoadIsCareful(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a.md":                  "# A\n\ntext",
		"README":                "read me",
		"deep/er/b.txt":         "text",
		"bom.md":                "\ufeff# Mark",
		"wide.txt":              utf16Of("Grüße 𝄞", false),
		"wide-big.txt":          utf16Of("Grüße", true),
		"crlf.md":               "# T\r\n\r\ntext\r\n",
		"torn.txt":              "\xff\xfe\x00",
		"lone.txt":              "\xff\xfe\x00\xd8",
		"nul.txt":               "a\x00b",
		"latin1.txt":            "caf\xe9",
		"huge.txt":              strings.Repeat("x", folder.MaxFile+1),
		"largest.txt":           strings.Repeat("x ", folder.MaxFile/2),
		"doc.pdf":               "%PDF",
		"noext":                 "?",
		"noext-script":          "#!/bin/sh\necho\n",
		".env":                  "SECRET=1",
		".env.local.md":         "SECRET=1",
		"tls.pem":               "-----BEGIN",
		"TLS.KEY":               "-----BEGIN",
		"id_rsa":                "-----BEGIN",
		"secrets.prod.yaml":     "a: b",
		".hidden.md":            "x",
		".git/config.md":        "x",
		"node_modules/p/doc.md": "x",
		"empty.md":              "",
		"blank.md":              " \n\t\n",
		"line\nbreak.md":        "x",
	})
	ids, skipped, report := load(t, folder.Folder{ID: "x", Path: dir})
	wantIDs := []string{"README", "a.md", "bom.md", "crlf.md", "deep/er/b.txt", "largest.txt", "latin1.txt", "noext-script", "wide-big.txt", "wide.txt"}
	if diff := cmp.Diff(wantIDs, ids); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	wantSkipped := map[string]folder.SkipKind{
		"torn.txt": folder.SkipNotText, "lone.txt": folder.SkipNotText, "nul.txt": folder.SkipNotText,
		"huge.txt": folder.SkipTooLarge, "doc.pdf": folder.SkipUnsupported, "noext": folder.SkipUnsupported,
		".env": folder.SkipSecret, ".env.local.md": folder.SkipSecret, "tls.pem": folder.SkipSecret, "TLS.KEY": folder.SkipSecret, "id_rsa": folder.SkipSecret, "secrets.prod.yaml": folder.SkipSecret,
		".hidden.md": folder.SkipHidden, "node_modules": folder.SkipVendored, "line\nbreak.md": folder.SkipUnreadable,
	}
	if diff := cmp.Diff(wantSkipped, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if report.Files != len(wantIDs)+2 { // two have nothing in them
		t.Errorf("%d files, want %d", report.Files, len(wantIDs)+2)
	}
	want := "skipped 9: 1 PDF (unsupported), 1 without extension (unsupported), 1 over 10 MB, 3 not text, 1 unreadable, 1 node_modules, 1 hidden; 6 as likely secrets (.env, …)"
	if got := report.Summary(); got != want {
		t.Errorf("summary\n%s\nwant\n%s", got, want)
	}
}

// Links are followed only to files inside the folder.
func TestLoadFollowsNoLinkOut(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	write(t, outside, map[string]string{"secret.md": "secret", "sub/more.md": "secret"})
	write(t, dir, map[string]string{"a.md": "a", ".data/v1/mounted.md": "mounted", ".env": "SECRET", "sub/b.md": "b", "jquery.js": "x"})
	for name, target := range map[string]string{
		"lib.js":       "jquery.js",
		"abs.md":       filepath.Join(outside, "secret.md"),
		"rel.md":       "../" + filepath.Base(outside) + "/secret.md",
		"up.md":        "sub/../../" + filepath.Base(outside) + "/secret.md",
		"dir":          outside,
		"loop":         ".",
		"circle.md":    "circle.md",
		"gone.md":      "missing.md",
		"folder.md":    "sub",
		"current":      ".data/v1",
		"again.md":     "a.md",
		"env.md":       ".env",
		"mounted.md":   "current/mounted.md",
		"sub/above.md": "../current/mounted.md",
		"through.md":   "dir/sub/more.md",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skipf("no links here: %v", err)
		}
	}
	ids, skipped, _ := load(t, folder.Folder{ID: "x", Path: dir})
	if diff := cmp.Diff([]string{"a.md", "mounted.md", "sub/above.md", "sub/b.md"}, ids); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	want := map[string]folder.SkipKind{".data": folder.SkipHidden, ".env": folder.SkipSecret, "env.md": folder.SkipSecret, "jquery.js": folder.SkipGenerated, "lib.js": folder.SkipGenerated}
	for _, name := range []string{"abs.md", "rel.md", "up.md", "dir", "loop", "circle.md", "gone.md", "folder.md", "current", "through.md"} {
		want[name] = folder.SkipLink
	}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

// Excluded files are not read through links from elsewhere in the folder either.
func TestLoadFollowsNoLinkToExcluded(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.md": "a", "drafts/b.md": "draft", "old/deep/c.md": "old", "..v1/d.md": "mounted"})
	for name, target := range map[string]string{"b.md": "drafts/b.md", "c.md": "old/deep/c.md", "d.md": "..data/d.md", "..data": "..v1"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skipf("no links here: %v", err)
		}
	}
	ids, skipped, _ := load(t, folder.Folder{ID: "x", Path: dir, Exclude: []string{"drafts/**", "old"}})
	if diff := cmp.Diff([]string{"a.md", "d.md"}, ids); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if skipped["b.md"] != folder.SkipLink || skipped["c.md"] != folder.SkipLink {
		t.Errorf("skipped %v", skipped)
	}
}

// faulty fails to open some names.
type faulty struct {
	fs.FS
	broken string
}

func (f faulty) Open(name string) (fs.File, error) {
	if name == f.broken {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return f.FS.Open(name)
}

// If some files cannot be opened, the others are read.
func TestFromFSGoesOn(t *testing.T) {
	fsys := fstest.MapFS{"a.md": {Data: []byte("a")}, "sub/b.md": {Data: []byte("b")}, "sub/c.md": {Data: []byte("c")}}
	for broken, want := range map[string][]string{"a.md": {"sub/b.md", "sub/c.md"}, "sub/b.md": {"a.md", "sub/c.md"}, "sub": {"a.md"}} {
		c, report, err := knowledge.FromFS(t.Context(), faulty{fsys, broken}, folder.Folder{ID: "x"}, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, idsOf(c)); diff != "" {
			t.Errorf("without %s (-want +got):\n%s", broken, diff)
		}
		wantSkips := []folder.Skip{{Path: broken, Kind: folder.SkipUnreadable, Reason: "permission denied"}}
		if len(report.Skipped) == 1 {
			wantSkips[0].Reason = report.Skipped[0].Reason
		}
		if diff := cmp.Diff(wantSkips, report.Skipped); diff != "" {
			t.Errorf("without %s, skipped (-want +got):\n%s", broken, diff)
		}
	}
}

func TestIncludeExclude(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.md": "a", "a.txt": "a", "drafts/b.md": "b", "sub/c.md": "c", "sub/d.txt": "d"})
	for _, tc := range []struct{ include, exclude, want []string }{
		{nil, nil, []string{"a.md", "a.txt", "drafts/b.md", "sub/c.md", "sub/d.txt"}},
		{[]string{"**/*.md"}, []string{"drafts/**"}, []string{"a.md", "sub/c.md"}},
		{[]string{"*.md", "sub/**"}, []string{"**/*.txt"}, []string{"a.md", "sub/c.md"}},
		{nil, []string{"sub"}, []string{"a.md", "a.txt", "drafts/b.md"}},
	} {
		ids, _, _ := load(t, folder.Folder{ID: "x", Path: dir, Include: tc.include, Exclude: tc.exclude})
		if diff := cmp.Diff(tc.want, ids); diff != "" {
			t.Errorf("include %q, exclude %q (-want +got):\n%s", tc.include, tc.exclude, diff)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	deps := knowledge.Deps{Counter: knowledgetest.FourBytes{}}
	_, _, err := knowledge.Load(t.Context(), folder.Folder{ID: "docs", Path: filepath.Join(t.TempDir(), "missing")}, deps)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "docs") || !strings.Contains(err.Error(), "missing") {
		t.Errorf("missing folder: %v", err)
	}
	if _, _, err := knowledge.Load(t.Context(), folder.Folder{ID: "docs", Path: t.TempDir(), Include: []string{"[a"}}, deps); err == nil || !strings.Contains(err.Error(), "[a") {
		t.Errorf("bad pattern: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := knowledge.Load(ctx, folder.Folder{ID: "docs", Path: t.TempDir()}, deps); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A path to one file is a base of one document.
func TestLoadOneFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"guide.md": "---\ntitle: 'The guide'\n---\n# Guide\n\ntext\n", "other.md": "x", "data.bin": "x"})
	c, _, err := knowledge.Load(t.Context(), folder.Folder{ID: "x", Path: filepath.Join(dir, "guide.md")}, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	for s := range c.All() {
		if s.Doc != "guide.md" || s.Name != "The guide" || s.Text != "# Guide\n\ntext" {
			t.Errorf("%+v", s)
		}
	}
	if c.Documents() != 1 || c.Chunks() != 1 {
		t.Errorf("%d documents, %d chunks", c.Documents(), c.Chunks())
	}
	if _, skipped, _ := load(t, folder.Folder{ID: "x", Path: filepath.Join(dir, "data.bin")}); skipped["data.bin"] != folder.SkipUnsupported {
		t.Errorf("skipped %v", skipped)
	}
}

// Progress is reported for every file.
func TestProgress(t *testing.T) {
	var last folder.Progress
	deps := knowledge.Deps{Counter: knowledgetest.FourBytes{}, Progress: func(p folder.Progress) { last = p }}
	fsys := fstest.MapFS{"a.md": {Data: []byte("a")}, "b.md": {Data: []byte("b")}, "c.pdf": {}}
	if _, _, err := knowledge.FromFS(t.Context(), fsys, folder.Folder{ID: "x"}, deps); err != nil {
		t.Fatal(err)
	}
	if want := (folder.Progress{Knowledge: "x", Files: 2, Done: 2, Chunks: 2}); last != want {
		t.Errorf("got %+v, want %+v", last, want)
	}
}

// Devices are rejected: reading one might never end.
func TestLoadRefusesDevices(t *testing.T) {
	if _, _, err := knowledge.Load(t.Context(), folder.Folder{ID: "kb", Path: os.DevNull}, knowledge.Deps{Counter: knowledgetest.FourBytes{}}); err == nil {
		t.Errorf("%s was read", os.DevNull)
	}
}
