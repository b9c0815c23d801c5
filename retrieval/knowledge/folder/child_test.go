package folder_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/extract/extracttest"
	"sidenote/retrieval/knowledge/extract/pdf"
	"sidenote/retrieval/knowledge/folder"
)

// The test binary is the program that ChildReader starts.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == folder.ChildArgument {
		if err := folder.ServeChild(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// failed returns the message of a Failure, or of another error.
func failed(err error) string {
	if err == nil {
		return ""
	}
	f := folder.FailureOf(err)
	return string(f.Kind) + ": " + f.Reason
}

// A child process extracts the same documents, with the same failures.
func TestSameAsHere(t *testing.T) {
	r, here := folder.NewChildReader(extracttest.CodeCache()), pdf.New(extracttest.CodeCache())
	office := func(name string) string {
		raw, err := os.ReadFile(filepath.Join("../extract/office/testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for name, raw := range map[string]string{
		"a.xlsx":      office("openpyxl.xlsx"),
		"a.ods":       office("odfpy.ods"),
		"a.pptx":      office("slides.pptx"),
		"a.odp":       office("odfpy.odp"),
		"a.odt":       office("odfpy.odt"),
		"a.epub":      office("ebooklib.epub"),
		"a.eml":       "From: a@b\nTo: c@d\nSubject: Ants\n\nAn ant.\n",
		"a.yaml":      "ants: {red: 1}\n",
		"a.rtf":       `{\rtf1 An ant.`,
		"guess.txt":   "I\xf0d\xfdr",
		"a.md":        "---\ntitle: Ants\n---\n# Ants\n\nAn ant.\r\n",
		"a.txt":       "caf\xe9 au lait",
		"binary.txt":  "a\x00\x01\x02b",
		"empty.md":    "",
		"a.html":      "<title>Ants</title><p>An ant &amp; more.",
		"tangled.htm": strings.Repeat("<b>", 1000) + strings.Repeat("<p>x", 2000),
		"a.csv":       "Name;Price\nAnt;1\nBee;2\n",
		"a.jsonl":     `{"id":"a","text":"An ant.","n":1.5,"yes":true,"tags":["x","y"],"lang":"en"}` + "\n{broken\n" + `{"id":"b","name":"Bee","empty":{}}`,
		"left.jsonl":  `{"id":"a","text":"An ant.","n":[1,2]}`,
		"a.json":      `[{"a":1},{"b":[{"c":2}]}]`,
		"a.go":        "package a\n\nfunc A() {}\n",
		"a.rst":       "Title\n=====\n\ntext\n",
		"a.pdf":       string(extracttest.PDF("An ant.", "A bee.")),
		"torn.pdf":    "%PDF-1.4\n",
		"a.docx":      string(extracttest.DOCX(extracttest.Paragraph("Heading1", "Ants") + extracttest.Paragraph("", "An ant."))),
		"torn.docx":   "PK",
	} {
		want, wantErr := folder.Extract(t.Context(), extract.Of(name), name, []byte(raw), here)
		got, err := r.Extract(t.Context(), extract.Of(name), name, []byte(raw), 1<<30, 1<<30)
		if diff := cmp.Diff(want, got); diff != "" || failed(err) != failed(wantErr) {
			t.Errorf("%s: %q, want %q; documents (-here +apart):\n%s", name, failed(err), failed(wantErr), diff)
		}
	}
}

// Files that need more memory than the child process or its caller may use are rejected with that
// reason, and the next file is read.
func TestTooMuchMemory(t *testing.T) {
	const size = 5 << 20
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	var attributes strings.Builder // compressed to more than a hundredth
	for i := 0; attributes.Len() < 3<<20; i++ {
		fmt.Fprintf(&attributes, `a%x="" `, uint32(i)*2654435761)
	}
	r := folder.NewChildReader(extracttest.CodeCache())
	if _, err := pdf.New(extracttest.CodeCache()).Read(t.Context(), extracttest.PDF("compile")); err != nil {
		t.Fatal(err)
	}
	type file struct {
		name, raw    string
		memory, most int64
	}
	files := []file{
		{"bomb.pdf", string(extracttest.PDFBomb(200 << 20)), 96 << 20, 32 << 20},
		{"a.pdf", string(extracttest.PDF("An ant.")), 48 << 20, 32 << 20},
		{"attributes.docx", string(extracttest.DOCX("<w:p " + attributes.String() + "><w:r><w:t>x</w:t></w:r></w:p>")), 20 << 20, 32 << 20},
		{"attributes.html", repeat("<p a b c d e f g h i>x"), 96 << 20, 32 << 20},
		{"tags.html", strings.Repeat("<p>a", 240_000), 48 << 20, 32 << 20},
		{"cells.csv", repeat(","), 96 << 20, 32 << 20},
		{"quoted.csv", `"` + repeat("a\n") + `"`, 48 << 20, 32 << 20},
		{"objects.json", "[" + strings.Repeat(`{"a":1},`, 99_000) + "{}]", 40 << 20, 256 << 20},
		{"records.jsonl", strings.Repeat("1\n", 99_000), 256 << 20, 32 << 20},
		{"text.txt", repeat("word "), 256 << 20, 1 << 20},
	}
	if testing.Short() { // with the race detector one for each limit
		files = []file{files[1], files[len(files)-1]}
	}
	for _, tc := range files {
		documents, err := r.Extract(t.Context(), extract.Of(tc.name), tc.name, []byte(tc.raw), tc.memory, tc.most)
		if f := folder.FailureOf(err); documents != nil || f == nil || f.Kind != folder.SkipMemory {
			t.Errorf("%s: %d documents, %q", tc.name, len(documents), failed(err))
		}
	}
	documents, err := r.Extract(t.Context(), extract.PDF, "a.pdf", extracttest.PDF("An ant."), 512<<20, 32<<20)
	if err != nil || len(documents) != 1 || !strings.Contains(documents[0].Text, "An ant.") {
		t.Errorf("then %v, %v", documents, err)
	}
}

// Without cached machine code, pdfium is not compiled if there is too little memory for that.
func TestNoMemoryToCompile(t *testing.T) {
	code := filepath.Join(t.TempDir(), "code")
	_, err := folder.NewChildReader(code).Extract(t.Context(), extract.PDF, "a.pdf", extracttest.PDF("An ant."), 160<<20, 32<<20)
	if f := folder.FailureOf(err); f == nil || f.Kind != folder.SkipMemory {
		t.Error(failed(err))
	}
	if _, err := os.Stat(code); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was compiled: %v", err)
	}
}

// If a process cannot be started or crashes, that is an error about the file, which is tried
// again. Cancellation is reported as such.
func TestNoProcess(t *testing.T) {
	_, err := (&folder.ChildReader{Program: filepath.Join(t.TempDir(), "none")}).Extract(t.Context(), extract.Text, "a.txt", []byte("x"), 1<<30, 1<<30)
	if f := folder.FailureOf(err); f == nil || f.Kind != folder.SkipUnreadable {
		t.Error(failed(err))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := folder.NewChildReader("").Extract(ctx, extract.Text, "a.txt", []byte("x"), 1<<30, 1<<30); err == nil {
		t.Error("read for nobody")
	}
}
