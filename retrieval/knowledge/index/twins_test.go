package index_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
)

// page returns a text of many sentences, in which weeks and euros are said.
func page(weeks, euros int) string {
	var b strings.Builder
	for i, topic := range []string{"annual", "parental", "special", "medical", "unpaid", "public", "remote", "study"} {
		fmt.Fprintf(&b, "Whoever wants %s leave tells the people team by mail %d days ahead, and the manager answers within the %s period. ", topic, 10+i, topic)
	}
	fmt.Fprintf(&b, "Every parent may take %d weeks of leave on full pay after the birth. A payment of %d euros is made to each new parent by the office.", weeks, euros)
	return b.String()
}

// Of two documents that say the same in two formats, the worse one is hidden; all else stays.
func TestTwins(t *testing.T) {
	long := page(8, 400)
	for i := range 300 {
		long += fmt.Sprintf(" word%d", i)
	}
	for _, c := range []struct {
		name      string
		documents []string // id, a space, text
		want      string   // twins
	}{
		{"two formats", []string{"functools.html " + page(8, 400), "functools.rst.txt " + page(8, 400) + " See also."}, "functools.rst.txt = functools.html"},
		{"other folders", []string{"library/functools.html " + page(8, 400), "_sources/library/functools.rst " + page(8, 400)}, "_sources/library/functools.rst = library/functools.html"},
		{"three formats", []string{"a.pdf " + page(8, 400), "a.md " + page(8, 400), "a.txt " + page(8, 400)}, "a.pdf = a.md|a.txt = a.md"},
		{"markdown first", []string{"a.md " + page(8, 400), "a.html " + page(8, 400)}, "a.html = a.md"},
		{"more in it", []string{"a.md " + page(8, 400), "a.txt " + long}, "a.md = a.txt"},
		{"other numbers", []string{"leave.md " + page(8, 400), "leave.txt " + page(18, 400)}, ""},
		{"a negation", []string{"leave.md " + page(8, 400), "leave.txt " + strings.Replace(page(8, 400), "may take", "may not take", 1)}, ""},
		{"other texts", []string{"a/index.html " + page(8, 400), "b/index.md entirely different words about pumps and filters and their care in the house, every month or so"}, ""},
		{"one format", []string{"a/index.md " + page(8, 400), "b/index.md " + page(8, 400)}, ""},
		{"other names", []string{"leave-2019.md " + page(8, 400), "leave-2020.txt " + page(8, 400)}, ""},
		{"parts of files", []string{"a.json#1 " + page(8, 400), "a.md " + page(8, 400)}, ""},
		{"short", []string{"a.md call Ann", "a.txt call Bob"}, ""},
		{"list numbers", []string{"a.md 1. " + page(8, 400) + "\n3. last of all things", "a.txt 1. " + page(8, 400) + "\n2. last of all things"}, "a.txt = a.md"},
	} {
		var segments index.Segments
		for i, d := range c.documents { // each in a segment of its own
			id, text, _ := strings.Cut(d, " ")
			w := index.Writer{Emit: segments.Take}
			if err := w.Add(index.Document{Row: int64(i), ID: id, Name: id, Attributes: "{}", Chunks: []chunk.Chunk{{Text: text}}}); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		shown := segments.WithoutTwins(new(index.Verdicts))
		var got []string
		for _, twin := range shown.Twins() {
			got = append(got, twin.Document+" = "+twin.Same)
			if _, ok := index.Lookup(shown, twin.Document); ok {
				t.Errorf("%s: %s is not hidden", c.name, twin.Document)
			}
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if again := shown.WithoutTwins(new(index.Verdicts)); len(again.Twins()) != len(got) || again[0].Postings != shown[0].Postings {
			t.Errorf("%s: counted again", c.name)
		}
	}
}

// A hidden document comes back if its twin is deleted.
func TestTwinComesBack(t *testing.T) {
	var segments index.Segments
	w := index.Writer{Emit: segments.Take}
	for i, id := range []string{"a.html", "a.txt"} {
		if err := w.Add(index.Document{Row: int64(i), ID: id, Name: id, Attributes: "{}", Chunks: []chunk.Chunk{{Text: page(8, 400)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	shown := segments.WithoutTwins(new(index.Verdicts))
	if shown[0].Documents != 1 || shown[0].Postings.Len() != 1 {
		t.Fatalf("%d documents, %d texts", shown[0].Documents, shown[0].Postings.Len())
	}
	html := shown[0].WithRows(map[int64]bool{0: true})
	after := index.Segments{shown[0].Without(html, &shown[0])}.WithoutTwins(new(index.Verdicts))
	if _, ok := index.Lookup(after, "a.txt"); !ok || len(after.Twins()) > 0 || after[0].Documents != 1 {
		t.Errorf("%v, %v, %d documents", ok, after.Twins(), after[0].Documents)
	}
	image, rows, err := index.Merge(shown)
	if err != nil || len(rows) != 1 { // of those shown
		t.Errorf("%d rows of %d bytes: %v", len(rows), len(image), err)
	}
}

// A hundred thousand documents of one name and format cost nothing; and one in another format is
// compared with a few.
func TestManyOfOneName(t *testing.T) {
	var segments index.Segments
	w := index.Writer{Emit: segments.Take}
	for i := range 3000 {
		if err := w.Add(index.Document{Row: int64(i), ID: fmt.Sprintf("d%d/index.html", i), Name: "i", Attributes: "{}", Chunks: []chunk.Chunk{{Text: fmt.Sprintf("page number %d of many", i)}}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range []string{"d7/index.md", "x/index.md"} {
		if err := w.Add(index.Document{Row: int64(3000 + i), ID: id, Name: "i", Attributes: "{}", Chunks: []chunk.Chunk{{Text: "page number 7 of many"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if twins := segments.WithoutTwins(new(index.Verdicts)).Twins(); len(twins) != 1 || twins[0] != (index.Twin{Document: "d7/index.html", Same: "d7/index.md"}) {
		t.Error(twins)
	}
}
