package folder_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// attributesOf reads a folder and returns the attributes of the documents by id, and the report.
func attributesOf(t *testing.T, rules folder.Folder, texts map[string]string) (map[string]map[string]any, folder.Report) {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range texts {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	c, report, err := knowledge.FromFS(t.Context(), fsys, rules, deps())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for i := range c.Documents() {
		h := c.DocumentAt(i)
		out[h.ID] = h.Attributes
	}
	return out, report
}

func TestPathPattern(t *testing.T) {
	f := func(pattern, path string, want map[string]any) {
		t.Helper()
		got, _ := attributesOf(t, folder.Folder{PathPattern: pattern}, map[string]string{path: "text"})
		if diff := cmp.Diff(want, got[path]); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", pattern, path, diff)
		}
	}
	f("{product}/{version}/**", "widget/2.0/a.md", map[string]any{"product": "widget", "version": "2.0"})
	f("{product}/{version}/**", "widget/2.0/deep/er/a.md", map[string]any{"product": "widget", "version": "2.0"})
	f("{product}/{version}/**", "widget/a.md", nil)
	f("{lang}-{year}/**", "de-AT-2024/a.md", map[string]any{"lang": "de", "year": "AT-2024"})
	f("**/{lang}-{year}/*.md", "x/y/de-2024/a.md", map[string]any{"lang": "de", "year": "2024"})
	f("**/{lang}-{year}/*.md", "de-2024/a.md", map[string]any{"lang": "de", "year": "2024"})
	f("**/{lang}-{year}/*.md", "de-2024/a.txt", nil)
	f("a/**/b/{x}", "a/b/c.md", map[string]any{"x": "c.md"})
	f("a/**/b/{x}", "a/b/b/b/c.md", map[string]any{"x": "c.md"})
	f("{name}.md", "a.b.md", map[string]any{"name": "a.b"})
	f("{name}.md", "a-md.md", map[string]any{"name": "a-md"})
	f("(v{n}+)?/*", "(v1+)x/a.md", map[string]any{"n": "1"})
	f("v?{n}/**", "vé1/a.md", map[string]any{"n": "1"})
	f("v?{n}/**", "v1/a.md", nil) // no name is empty
}

// An invalid rule is an error that quotes it, and nothing is read.
func TestRefusedRules(t *testing.T) {
	many := map[string]any{}
	for i := range 65 {
		many[fmt.Sprint("k", i)] = true
	}
	crowd := maps.Clone(many)
	delete(crowd, "k64")
	l, err := library.Open(t.Context(), store.Memory, deps(), library.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	f := func(want string, rules folder.Folder) {
		t.Helper()
		rules.ID, rules.Path = "kb", t.TempDir()
		_, _, err := knowledge.Load(t.Context(), rules, deps())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "knowledge kb: ") {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := l.Sync(t.Context(), rules, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("sync: got %v, want %q", err, want)
		}
	}
	pattern := func(p, want string) {
		t.Helper()
		f(fmt.Sprintf("path pattern %q: %s", p, want), folder.Folder{PathPattern: p})
	}
	pattern("guides/**", "there is no {name} in it")
	pattern("{a}/{a}", `segment "{a}": {a} comes twice`)
	pattern("{a}{b}/**", `segment "{a}{b}": put a separator between {b} and the name before it`)
	pattern("{a/b}", `segment "{a": a { is not closed`)
	pattern("{a,b}", `segment "{a,b}": {a,b} is no name`)
	pattern("{}", `segment "{}": {} is no name`)
	pattern("a}{b}", `segment "a}{b}": "}" has no meaning here`)
	pattern("[ab]{c}", `segment "[ab]{c}": "[" has no meaning here`)
	pattern("x**/{a}", `segment "x**": ** stands for whole segments only`)
	pattern("/{a}", `segment 1 is ""`)
	pattern("{a}//b", `segment 2 is ""`)
	pattern("../{a}", `segment 1 is ".."`)
	f(`attribute "x": {} is an object`, folder.Folder{Attributes: map[string]any{"x": map[string]any{}}})
	f(`65 attributes, more than 64`, folder.Folder{Attributes: many})
	f(`there are 65 attributes, more than 64`, folder.Folder{Attributes: crowd, PathPattern: "{a}/**"})
	f(`front matter: attribute "": it has no name`, folder.Folder{FrontMatter: []string{""}})
}

func TestFrontMatterAttributes(t *testing.T) {
	keys := []string{"a", "b", "title"}
	f := func(text string, want map[string]any, notes ...string) {
		t.Helper()
		got, report := attributesOf(t, folder.Folder{FrontMatter: keys}, map[string]string{"x.md": text, "plain.txt": text})
		if diff := cmp.Diff(want, got["x.md"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if got["plain.txt"] != nil {
			t.Errorf("%s: of plain text %v", text, got["plain.txt"])
		}
		var is []string
		for _, n := range report.Notes {
			if is = append(is, n.Reason); n.Document != "x.md" {
				t.Errorf("a note on %s", n.Document)
			}
		}
		if len(is) != len(notes) || len(is) > 0 && !strings.Contains(is[0], notes[0]) {
			t.Errorf("%s: notes %q, want %q", text, is, notes)
		}
	}
	f("---\ntitle: T\na: x\nc: y\n---\n# H\n\ntext", map[string]any{"title": "T", "a": "x"})
	f("---\na: 2024-01-02\nb: 12:30:00\n---\n", map[string]any{"a": "2024-01-02", "b": "12:30:00"})
	f("---\na: 7\nb: -1.5\n---\n", map[string]any{"a": 7.0, "b": -1.5})
	f("---\na: true\nb: 'true'\n---\n", map[string]any{"a": true, "b": "true"})
	f("---\na: [x, \"y z\", 2024-01-02] # three\nb:\n- x\n# no\n- y\n---\n", map[string]any{"a": []string{"x", "y z", "2024-01-02"}, "b": []string{"x", "y"}})
	f("---\n\"a\": x\n'b':\n  - y\n---\n", map[string]any{"a": "x", "b": []string{"y"}})
	f("---\na: |\n  x\n  y\nb: >-\n  x\n  y\n---\n", map[string]any{"a": "x\ny\n", "b": "x y"})
	f("--- \t\na: x\nb:\ty\n--- \n", map[string]any{"a": "x", "b": "y"})
	f("---\na:\nb: ~\n---\n", nil)
	f("---\nc: x\n---\n", nil)
	f("---\n", nil)
	f("---\n\nA thematic break.\n\n---\n", nil)
	f("no front matter\na: x", nil)

	// Values that cannot be attributes are left out.
	f("---\na: {x: y}\nb: y\n---\n", map[string]any{"b": "y"}, `attribute "a": is a YAML mapping, neither`)
	f("---\na: [1, x]\nb: y\n---\n", map[string]any{"b": "y"}, `attribute "a": is a list that contains a YAML integer`)
	f("---\na: [[x]]\nb: y\n---\n", map[string]any{"b": "y"}, `attribute "a": is a list that contains a YAML sequence`)
	f("---\na: .nan\nb: y\n---\n", map[string]any{"b": "y"}, `attribute "a": is a YAML nan`)
	f("---\na: &x y\nb: *x\n---\n", nil, `attribute "a": is a YAML anchor`, "")
	f("---\na: "+strings.Repeat("x", 1025)+"\nb: y\n---\n", map[string]any{"b": "y"}, `attribute "a": "xxxxxxxxxx…" is longer`)
	f("---\na: "+strings.Repeat("[", 60<<10)+"\nb: y\n---\n", map[string]any{"b": "y"}, `attribute "a": is longer than 4096 bytes`)

	// Invalid YAML yields no attributes.
	f("---\na: [x\nb: y\n---\n", nil, `not YAML at "a": [1:4] sequence end token`)
	f("---\na: x\nb: y: z\n---\n", nil, `not YAML at "b"`)
	f("---\na: x\na: y\n---\n", nil, `"a" twice`)
	f("---\na: x\nwhat is this\n---\n", nil, "not YAML, or does not end")
	f("---\na: x\n", nil, "not YAML, or does not end")
	f("---\n{c: z, \"a\": x}\n---\n", nil, "a map in braces")
	f("---\n? a\n: x\n---\n", nil, "not YAML, or does not end")
}

// Attributes of the folder's configuration take precedence over those of the path, and these over
// those of the text.
func TestPrecedence(t *testing.T) {
	rules := folder.Folder{
		Attributes:  map[string]any{"audience": "staff", "year": 2024},
		PathPattern: "{audience}/{product}/**",
		FrontMatter: []string{"audience", "product", "owner"},
	}
	long := "public/" + strings.Repeat("x", 1025) + "/a.md"
	got, report := attributesOf(t, rules, map[string]string{
		"public/widget/a.md": "---\naudience: everyone\nproduct: gadget\nowner: mallory\nyear: 1999\n---\n",
		"b.md":               "---\naudience: everyone\nproduct: gadget\n---\n",
		long:                 "---\nproduct: gadget\n---\n", // none: a value that is left out is not replaced by a weaker one
	})
	want := map[string]map[string]any{
		"public/widget/a.md": {"audience": "staff", "year": 2024.0, "product": "widget", "owner": "mallory"},
		"b.md":               {"audience": "staff", "year": 2024.0, "product": "gadget"},
		long:                 {"audience": "staff", "year": 2024.0},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(report.Notes) != 1 || !strings.Contains(report.Notes[0].Reason, `attribute "product": "xxxxxxxxxx…" is longer than 1024 bytes`) {
		t.Errorf("%v (-want +got):\n%s", report.Notes, diff)
	}
}

// A document has at most 64 attributes, the strongest first.
func TestCrowdedDocument(t *testing.T) {
	rules := folder.Folder{Attributes: map[string]any{"z": 1}, PathPattern: "{y}.md"}
	text := "---\n"
	for i := range 70 {
		key := fmt.Sprintf("k%02d", i)
		rules.FrontMatter = append(rules.FrontMatter, key)
		text += key + ": v\n"
	}
	got, report := attributesOf(t, rules, map[string]string{"a.md": text + "---\n"})
	if a := got["a.md"]; len(a) != 64 || a["z"] != 1.0 || a["y"] != "a" || a["k61"] != "v" {
		t.Errorf("%v", a)
	}
	if want := []folder.Note{{Document: "a.md", Reason: "8 attributes beyond the first 64"}}; !cmp.Equal(want, report.Notes) {
		t.Errorf("notes %v", report.Notes)
	}
}

// Reading terminates whatever a document begins with.
func FuzzFrontMatter(f *testing.F) {
	f.Add("a: [x, 'y']\nb: |\n  z\n")
	f.Add("a: &x !!str *y\nb: {? [a]: b}\n<<: *a\n")
	f.Fuzz(func(t *testing.T, matter string) {
		docs := fstest.MapFS{"a.md": &fstest.MapFile{Data: []byte("---\n" + matter + "\n---\n")}}
		rules := folder.Folder{FrontMatter: []string{"a", "b", "title"}}
		if _, _, err := knowledge.FromFS(t.Context(), docs, rules, deps()); err != nil {
			t.Fatal(err)
		}
	})
}

// A record whose file's path does not match the pattern with its tenant cannot name the tenant
// itself: who writes to one tenant's folder must not add documents for another.
func TestRecordCannotStandInForPath(t *testing.T) {
	rules := folder.Folder{PathPattern: "{tenant}/files/**", FrontMatter: []string{"owner"}}
	record := `{"id":"r","text":"ant","tenant":"acme","owner":"hr"}` + "\n"
	got, report := attributesOf(t, rules, map[string]string{
		"globex/files/a.jsonl": record, "globex/b.jsonl": record,
	})
	want := map[string]map[string]any{
		"globex/files/a.jsonl#r": {"tenant": "globex", "owner": "hr"},
		"globex/b.jsonl#r":       {"owner": "hr"},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(report.Notes) > 0 {
		t.Errorf("%v (-want +got):\n%s", report.Notes, diff)
	}
}
