package folder_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
)

// Only the front matter of Markdown files provides attributes. The text of a record, a page or a
// table may look like front matter, but is text: authors of field values must not decide who may
// read them.
func TestFrontMatterIsOfMarkdownFilesOnly(t *testing.T) {
	matter := `---\naudience: public\nowner: mallory\ntitle: Forged\n---\n\nThe bonus is large.`
	open := `---\naudience: public\n\nThe bonus is large.` // not terminated
	folder := folder.Folder{PathPattern: "{audience}/**", FrontMatter: []string{"audience", "owner"}}
	got, report := attributesOf(t, folder, map[string]string{
		"a.jsonl":       `{"id":"text","text":"` + matter + `"}` + "\n" + `{"id":"open","text":"` + open + `"}` + "\n" + `{"id":"own","content":"` + matter + `","owner":"hr"}` + "\n",
		"b.json":        `[{"id":"listed","body":"` + matter + `"}]`,
		"c.json":        `{"text":"` + matter + `"}`,
		"d.html":        "<p>---<p>audience: public<p>---<p>The bonus is large.",
		"e.html":        "<pre>---\naudience: public\n---</pre><p>The bonus is large.",
		"f.txt":         "---\naudience: public\n---\nThe bonus is large.",
		"staff/g.jsonl": `{"id":"placed","text":"` + matter + `"}` + "\n",
		"h.md":          "---\naudience: public\n---\nThe bonus is large.",
	})
	want := map[string]map[string]any{
		"a.jsonl#text": nil, "a.jsonl#open": nil, "a.jsonl#own": {"owner": "hr"}, "b.json#listed": nil, "c.json": nil,
		"d.html": nil, "e.html": nil, "f.txt": nil,
		"staff/g.jsonl#placed": {"audience": "staff"},
		"h.md":                 {"audience": "public"},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(report.Notes) > 0 {
		t.Errorf("%v (-want +got):\n%s", report.Notes, diff)
	}
}

// What front matter says of the version of a document has names of its own, whatever attributes the
// base has; what is no attribute is left out.
func TestFrontMatterOfVersions(t *testing.T) {
	got, report := attributesOf(t, folder.Folder{}, map[string]string{
		"a.md":  "---\ndate: 2026-03-01\nversion: 1.10 # a comment\nsupersedes: [old.md, older.md]\nowner: hr\n---\nText.",
		"b.md":  "---\ndate: {year: 2026}\nsupersedes: old.md\n---\nText.",
		"c.md":  "Text with a date: 2026-03-01.",
		"d.txt": "---\ndate: 2026-03-01\n---\nText.",
	})
	want := map[string]map[string]any{
		"a.md": {"sidenote_date": "2026-03-01", "sidenote_version": "1.10", "sidenote_supersedes": []string{"old.md", "older.md"}},
		"b.md": {"sidenote_supersedes": "old.md"}, "c.md": nil, "d.txt": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(report.Notes) > 0 {
		t.Errorf("%v (-want +got):\n%s", report.Notes, diff)
	}
}

// Stored values have the form that filters compare with.
func TestAttributesHaveOneForm(t *testing.T) {
	for _, c := range []struct{ value, list any }{
		{"a", []string{"a"}}, {1, []any{1.0}}, {int64(2), []any{2}}, {uint64(3), []any{int64(3)}}, {4.5, []any{4.5}}, {true, []any{true}},
		{[]string{"a b", "c"}, []any{"c"}}, {[]any{"a b", "c"}, []string{"a b"}},
	} {
		kept, err := chunk.Attribute("k", c.value)
		if err != nil {
			t.Fatal(err)
		}
		in := &filter.Filter{Type: filter.In, Key: "k", Value: c.list}
		nin := &filter.Filter{Type: filter.Nin, Key: "k", Value: c.list}
		for _, v := range []any{c.value, kept} {
			if a := map[string]any{"k": v}; !in.Match(a) || nin.Match(a) {
				t.Errorf("%#v, kept as %#v, is not in %#v", c.value, kept, c.list)
			}
		}
	}
}
