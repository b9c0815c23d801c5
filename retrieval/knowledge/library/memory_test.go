package library_test

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/extract/extracttest"
	"sidenote/retrieval/knowledge/extract/pdf"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/rewrite/tags"
	"sidenote/rewrite/tokens"
)

// most returns the peak size of heap objects while f ran, minus the size before.
func most(f func()) int64 {
	objects := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	before, peak := objects(), int64(0)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			peak = max(peak, objects())
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	f()
	close(stop)
	<-ended
	return peak - before
}

// limit sets the memory limit of the process such that left bytes are free.
func limit(left int64) {
	debug.SetMemoryLimit(math.MaxInt64)
	runtime.GC()
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	debug.SetMemoryLimit(int64(s[0].Value.Uint64()) + left)
}

// A file that does not fit into memory is skipped with that reason, and the others are read. It is
// tried each time; its previous documents stay until then.
func TestSyncLeavesOutWhatDoesNotFit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	records, left := 20_000, int64(48<<20)
	if testing.Short() {
		records, left = 5000, 12<<20
	}
	long := strings.Repeat(`{"text":"A bee."}`+"\n", records)
	f := newFolder(t, map[string]string{"good.md": "An ant.", "also.md": "A wasp.", "kept.jsonl": `{"text":"A fly."}`, "long.jsonl": long, "a.pdf": "%PDF-", "a.docx": "PK"})
	with := deps()
	with.Memory, with.ChildReader, with.PDF = folder.NewMemoryLimit(), &folder.ChildReader{Program: filepath.Join(t.TempDir(), "none")}, pdf.New(extracttest.CodeCache())
	l, err := library.OpenLoaded(t.Context(), t.TempDir(), with, library.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	sync := func(read int, skipped map[string]folder.SkipKind) {
		t.Helper()
		report, err := l.Sync(t.Context(), folder.Folder{ID: "kb", Path: f.path}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]folder.SkipKind{}
		for _, s := range report.Skipped {
			got[s.Path] = s.Kind
			if s.Kind == folder.SkipMemory && !strings.Contains(s.Reason, "MB are free") {
				t.Errorf("%s: %q", s.Path, s.Reason)
			}
		}
		if diff := cmp.Diff(skipped, got); diff != "" || report.Files != read {
			t.Errorf("%d files are read, want %d; skipped (-want +got):\n%s", report.Files, read, diff)
		}
	}
	const none = folder.SkipMemory
	limit(left)
	for range 2 {
		sync(3, map[string]folder.SkipKind{"long.jsonl": none, "a.pdf": none, "a.docx": none})
	}
	f.write("kept.jsonl", long)
	sync(2, map[string]folder.SkipKind{"kept.jsonl": none, "long.jsonl": none, "a.pdf": none, "a.docx": none})
	if list, err := l.Documents(t.Context(), "kb", "", 10); err != nil || len(list) != 3 || list[2].ID != "kept.jsonl#1" {
		t.Errorf("%d documents, %v", len(list), err)
	}
	debug.SetMemoryLimit(math.MaxInt64)
	sync(4, map[string]folder.SkipKind{"a.pdf": folder.SkipBroken, "a.docx": folder.SkipBroken})
	if base, err := l.Stored(t.Context(), "kb"); err != nil || base.Documents != 2*records+2 {
		t.Errorf("%d documents, %v", base.Documents, err)
	}
}

// With limited memory, a folder yields the same base.
func TestSyncWithinMemoryIsTheSame(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	files := map[string]string{}
	for i := range 600 {
		files[fmt.Sprintf("%d.md", i)] = strings.Repeat(fmt.Sprintf("Ant %d of hill %d. ", i, i%7), i%50+1)
	}
	f := newFolder(t, files)
	generation := func() any {
		t.Helper()
		with := deps()
		with.Memory = folder.NewMemoryLimit()
		l, err := library.OpenLoaded(t.Context(), t.TempDir(), with, library.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		report, err := l.Sync(t.Context(), folder.Folder{ID: "kb", Path: f.path}, nil)
		if err != nil || report.Files != len(files) || len(report.Skipped) > 0 {
			t.Fatalf("%d files, %v", report.Files, err)
		}
		return l.Base("kb").Content().Generation()
	}
	debug.SetMemoryLimit(math.MaxInt64)
	want := generation()
	limit(64 << 20)
	if got := generation(); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// counting returns a library that counts tokens like a server's.
func counting(t *testing.T) *library.Library {
	t.Helper()
	deps := deps()
	deps.Encodings = map[string]retrieval.Counter{}
	set := tokens.New()
	for _, name := range []string{"o200k_base", "cl100k_base"} {
		counter, err := set.Encoding(name)
		if err != nil {
			t.Fatal(err)
		}
		counter.Count("warm")
		deps.Encodings[name] = counter
	}
	deps.Counter = deps.Encodings["o200k_base"]
	deps.Neutralise = func(_, text string) string {
		clean, _ := tags.Vocabulary{}.Neutralise(text, false)
		return clean
	}
	l, err := library.Open(t.Context(), t.TempDir(), deps, library.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Documents take at most the estimated memory until they are written, whatever they contain, and
// the estimate for prose is not too high.
func TestMemoryOfDocuments(t *testing.T) {
	l := counting(t)
	const size = 600 << 10
	records := func(n int, text string) (list []chunk.Document) {
		for i := range n {
			list = append(list, chunk.Document{
				ID: fmt.Sprintf("a.jsonl#%d", i), File: "a.jsonl", Key: fmt.Sprint(i), Text: text, Markdown: true,
				Attributes: map[string]any{"year": float64(i), "lang": "en"},
			})
		}
		return list
	}
	one := func(text string, markdown bool, form extract.Form) []chunk.Document {
		return []chunk.Document{{ID: "a", File: "a", Text: text[:min(len(text), size)], Markdown: markdown, Form: form, Lang: "go"}}
	}
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)+1) }
	for i, tc := range []struct {
		name      string
		documents []chunk.Document
		times     float64 // greatest estimate relative to the text; 0 for any
	}{
		{"prose", one(repeat("The quick brown fox jumps over the lazy dog and sees nothing at all today.\n\n"), true, 0), 20},
		{"plain prose", one(repeat("The quick brown fox jumps over the lazy dog and sees nothing at all today.\n"), false, extract.Plain), 20},
		{"headings", one(repeat("# a\nb\n"), true, 0), 0},
		{"list", one(repeat("- a\n"), true, 0), 0},
		{"emphasis", one(repeat("*a* "), true, 0), 0},
		{"links", one(repeat("[b](c) ![d](e) <http://x.y> "), true, 0), 0},
		{"tables", one(repeat("|a|b|\n|-|-|\n|1|2|\n\n"), true, 0), 0},
		{"listing", one("```\n"+repeat("a\n"), true, 0), 0},
		{"blank lines", one("a"+repeat("\n"), false, extract.Plain), 0},
		{"blank listing", one("```\n"+repeat("\n"), false, extract.Plain), 0},
		{"paragraphs", one(repeat("a\n\n"), true, 0), 0},
		{"one line", one(repeat("word "), false, extract.Plain), 0},
		{"one word", one(repeat("x"), false, extract.Plain), 0},
		{"numbers", one(func() string {
			var b strings.Builder
			for i := 0; b.Len() < size; i++ {
				fmt.Fprintf(&b, "%x ", i*2654435761)
			}
			return b.String()
		}(), true, 0), 0},
		{"names", one(func() string {
			var b strings.Builder
			for i := 0; b.Len() < size; i++ {
				fmt.Fprintf(&b, "a%x_b%x-C%xD ", i, i*7, i*31)
			}
			return b.String()
		}(), true, 0), 0},
		{"camels", one(func() string {
			var b strings.Builder
			for i := 0; b.Len() < size; i++ {
				fmt.Fprintf(&b, "getA%xOfB%xC%x ", i, i*7, i*31)
			}
			return b.String()
		}(), true, 0), 0},
		{"emphasis in lines", one(repeat("*a* `b` [c](d)\n"), true, 0), 0},
		{"entities", one(repeat("&amp; <b> \\* ![c](d)\n\n"), true, 0), 0},
		{"quotes", one(repeat("> - a\n"), true, 0), 0},
		{"records", one(repeat("a: b\nc: d\n\n"), false, extract.Records), 0},
		{"code", one(repeat("func a() {}\n"), false, extract.Code), 0},
		{"lines of code", one(repeat("a\n"), false, extract.Code), 0},
		{"documents", records(8_000, "The record says a word or two."), 0},
		{"tiny documents", records(8_000, "x"), 0},
	} {
		if testing.Short() && i%12 > 0 { // not useful with the race detector
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			text := 0
			for _, d := range tc.documents {
				text += len(d.Text)
			}
			thought := library.Memory(tc.documents)
			if tc.times > 0 && float64(thought) > tc.times*float64(text) {
				t.Errorf("%d KiB for %d KiB of text", thought>>10, text>>10)
			}
			var err error
			took := most(func() { err = l.Written(tc.documents) })
			t.Logf("%d KiB of text: took %d KiB, thought %d (%.2f)", text>>10, took>>10, thought>>10, float64(took)/float64(thought))
			if err != nil || took > thought+thought/2 { // some of it is garbage, more on a busy machine
				t.Errorf("it took %d KiB, which is more than %d: %v", took>>10, thought>>10, err)
			}
		})
	}
}

// A small file takes at most the estimated memory, whatever it contains.
func TestMemoryOfSmallFiles(t *testing.T) {
	l := counting(t)
	const size = 64 << 10
	for i, tc := range []struct{ name, unit, start, end string }{
		{"objects.json", `{"a":1},`, "[", "{}]"},
		{"empty.json", `{},`, "[", "{}]"},
		{"a.jsonl", "1\n", "", ""},
		{"attributes.jsonl", `{"a":1,"b":"x","c":true,"d":["x"],"text":"y"}` + "\n", "", ""},
		{"deep.json", "[", "", ""},
		{"cells.csv", ",", "", ""},
		{"rows.csv", "a,b,c\n", "", ""},
		{"quoted.csv", "a\n", `"`, `"`},
		{"header.csv", "1,", strings.Repeat(strings.Repeat("x", 61)+",", size/128) + "\n", "\n"},
		{"tags.html", "<p>a", "", ""},
		{"attributes.html", "<p a b c d e f g h i>x", "", ""},
		{"attribute.html", "a ", "<p ", ">x"},
		{"bold.html", "<p>x", strings.Repeat("<b>", 20), ""},
		{"table.html", "<td>a", "<table><tr>", ""},
		{"a.rst", "Title\n=====\n\ntext\n\n", "", ""},
		{"head.md", "# a\nb\n", "", ""},
		{"emphasis.md", "*a* ", "", ""},
		{"front.md", "a: [b, c]\n", "---\n", "---\ntext"},
		{"aliases.md", "b: *a\n", "---\na: &a [1, 2]\n", "---\ntext"},
		{"a.go", "func a() {}\n", "", ""},
		{"a.mbox", "From a 0:0\nTo: a@b\n\n> a\n\n", "", ""},
		{"a.eml", "> a b c d e\n\n", "To: a@b\n\n", ""},
		{"tags.eml", "<p>a", "To: a@b\nContent-Type: text/html\n\n", ""},
		{"a.ipynb", `{"cell_type":"code","source":"a"},`, `{"cells":[`, `{}]}`},
		{"a.yaml", "a:\n  b: c\n", "", ""},
		{"openapi.yaml", "  /a: {get: {responses: {200: {description: x}}}}\n", "openapi: '3'\ninfo: {title: x}\npaths:\n", ""},
		{"openapi.json", `{"name":"a"},`, `{"openapi":"3","info":{},"paths":{"/":{"get":{"parameters":[`, `{}]}}}}`},
		{"a.toml", "[a]\nb=1\n", "", ""},
		{"a.properties", "a=b\n\n", "", ""},
		{"a.xml", "<b><c>d</c></b>", "<a>", "</a>"},
		{"a.rtf", "a\\cell\\row", `{\rtf1 `, "}"},
		{"wide.txt", "a\x00b\x00\n\x00", "\xff\xfe", ""},
	} {
		if testing.Short() && i%12 > 0 { // not useful with the race detector
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			raw := tc.start + strings.Repeat(tc.unit, (size-len(tc.start)-len(tc.end))/len(tc.unit)) + tc.end
			source := folder.FromFS(fstest.MapFS{tc.name: {Data: []byte(raw)}})
			factor := library.LightFactor(extract.Of(tc.name))
			var err error
			took := most(func() {
				documents, _ := source.Read(t.Context(), tc.name, nil)
				err = l.Written(documents)
			})
			t.Logf("took %d times its size", took/int64(len(raw)))
			if err != nil || took > factor*int64(len(raw)) {
				t.Errorf("it took %d KiB, which is more than %d times %d: %v", took>>10, factor, len(raw)>>10, err)
			}
		})
	}
}
