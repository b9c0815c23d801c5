package knowledge_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// A file is one document, or one for each record. A broken file is reported, its readable part is
// used, and other files are not affected.
func TestFormats(t *testing.T) {
	fsys := fstest.MapFS{
		"page.html":      {Data: []byte("<title>T</title><nav>menu</nav><h1>Page</h1><p>Found on a page.")},
		"faq.jsonl":      {Data: []byte(`{"id":"q/1","text":"first"}` + "\n{broken\n" + `{"id":"q/1","title":"Two","text":"second"}` + "\n")},
		"faq.jsonl#7.md": {Data: []byte("the file of this name")},
		"more.jsonl":     {Data: []byte(`{"id":7,"text":""}`)},
		"clash.jsonl":    {Data: []byte(`{"id":"x.md","text":"loses"}`)},
		"clash.jsonl#x.md": {
			Data: []byte("wins"),
		},
		"bad.json":     {Data: []byte(`{"a":`)},
		"deep.html":    {Data: []byte(strings.Repeat("<div>", 100_000))},
		"prices.csv":   {Data: []byte("Article,Price\nDesk,399\n")},
		"tagged.jsonl": {Data: []byte(`{"id":"t","title":"Tagged","text":"Text.","tags":["a",1],"year":2024}`)},
		"tool.py":      {Data: []byte("def run():\n    pass\n")},
		"app.min.js":   {Data: []byte("x")},
		"handbook.pdf": {Data: []byte("%PDF-1.4")},
	}
	c, report, err := knowledge.FromFS(t.Context(), fsys, folder.Folder{ID: "x"}, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for s := range c.All() {
		got = append(got, s.Doc+" | "+s.Name+" | "+s.Section+" | "+s.Text)
	}
	want := []string{
		"clash.jsonl#x.md | clash.jsonl#x |  | wins",
		"faq.jsonl#7.md | faq.jsonl#7 |  | the file of this name",
		"faq.jsonl#q/1 | faq q/1 |  | first",
		"faq.jsonl#q/1:3 | Two |  | second",
		"page.html | Page |  | # Page\n\nFound on a page.",
		"prices.csv | prices |  | Article: Desk\nPrice: 399",
		"tagged.jsonl#t | Tagged |  | Text.",
		"tool.py | tool.py | run | def run():\n    pass",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chunks (-want +got):\n%s", diff)
	}
	wantSkips := []folder.Skip{
		{Path: "app.min.js", Kind: folder.SkipGenerated, Reason: "minified, by its name"},
		{Path: "bad.json", Kind: folder.SkipBroken, Reason: "it is not JSON: it ends too early"},
		{Path: "clash.jsonl#x.md", Kind: folder.SkipDuplicate, Reason: "another file has a document of this id"},
		{Path: "deep.html", Kind: folder.SkipBroken, Reason: "its tags are nested too deeply"},
		{Path: "faq.jsonl", Kind: folder.SkipPart, Reason: "line 2 is not JSON"},
		{Path: "handbook.pdf", Kind: folder.SkipUnsupported, Reason: "PDF is not supported"},
		{Path: "tagged.jsonl", Kind: folder.SkipAttributes, Reason: "attributes left out: tags (an object, or a list of other things than texts)"},
	}
	if diff := cmp.Diff(wantSkips, report.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if want := "skipped 6: 1 PDF (unsupported), 2 broken, 1 read in part, 1 with the id of another, 1 generated; attributes left out of 1 file (tagged.jsonl)"; report.Summary() != want {
		t.Errorf("summary %q, want %q", report.Summary(), want)
	}
}

// Attributes and their types are part of the generation.
func TestAttributesInGeneration(t *testing.T) {
	seen := map[string]any{}
	for _, value := range []any{nil, "1", 1.0, 2.0, true, "true"} {
		d := chunk.Document{ID: "a", Text: "x"}
		if value != nil {
			d.Attributes = map[string]any{"k": value}
		}
		c, _, err := knowledge.FromDocuments(t.Context(), []chunk.Document{d}, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := seen[c.Generation()]; twice {
			t.Errorf("%#v and %#v have the same generation", other, value)
		}
		seen[c.Generation()] = value
	}
}

// A document of ten million tokens just becomes many chunks.
//
// Row K9 of deploy/CONTRIBUTING.md.
func TestHugeDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("40 MB of text")
	}
	text := strings.Repeat("Ten million tokens are a lot to read for anybody. ", 40_000_000/50)
	c, _, err := knowledge.FromDocuments(t.Context(), []chunk.Document{{ID: "huge", Text: text}}, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil || c.Chunks() < 10_000_000/chunk.MaxTokens {
		t.Errorf("%d chunks, %v", c.Chunks(), err)
	}
}
