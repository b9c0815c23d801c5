package pdf_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/extract/extracttest"
	"sidenote/retrieval/knowledge/extract/pdf"
)

// The files in testdata come from the programs that make most PDFs. Their texts were written for
// these tests; the letters are subsets of free fonts (Computer Modern, DejaVu, Liberation,
// Libertinus, Nimbus).
//
//   latex15.pdf; pdfTeX 1.40.24, twocolumn; 1.5 with object streams, two columns, divided words
//   office16.pdf; LibreOffice 7.4 Writer, of HTML; 1.6, tagged; a list and a table
//   typst17.pdf; Typst 0.15; 1.7, tagged, justified, two pages
//   ghostscript14.pdf; Ghostscript 10.0, ps2pdf -dCompatibilityLevel=1.4; 1.4
//   linearized15.pdf; qpdf (pikepdf 10.17) of ghostscript14.pdf; 1.5, linearized, with object streams
//   groff.pdf; groff 1.22.4, groff -man -Tpdf; 1.4, a manual page
//   cairo.pdf; cairo (rsvg-convert -f pdf of an SVG); 1.5
//   cjk.pdf; ReportLab 5.1; 1.3; Chinese and Japanese in fonts that are not in the file
//   form.pdf; ReportLab 5.1; 1.3, a form that is filled in
//   scanned.pdf, scanned_part.pdf, cover.pdf; ReportLab 5.1; 1.3, pages that are images
//   aes256.pdf; qpdf (pikepdf 10.17) of typst17.pdf; 1.7, encrypted; a password opens it
//   owner.pdf; qpdf (pikepdf 10.17) of typst17.pdf; 1.7, encrypted; everybody may open it

func read(t testing.TB, r *pdf.Reader, raw []byte) (extract.Document, string) {
	t.Helper()
	d, err := r.Read(t.Context(), raw)
	broken := (*extract.Broken)(nil)
	if errors.As(err, &broken) {
		return d, broken.Reason
	}
	if err != nil {
		t.Fatal(err)
	}
	return d, ""
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The files of each producer are read in natural reading order, with the page of each part, or
// rejected with the reason.
func TestProducers(t *testing.T) {
	for _, tc := range []struct {
		file, name string
		parts      []string // in this order
		reason     string
	}{
		{"latex15.pdf", "", []string{"# Lights\n\n## 1 Keepers\n\n###### p. 1\n\nEvery lighthouse", "connected to a common control room", "an unreasonable quantity.\n\n## 2 Lamps\n\n###### p. 1\n\nThe lamps burn", "shoals off Tern Island.\n\n## 3 Horns\n\n###### p. 1\n\nThe compressed-air horn"}, ""},
		{"office16.pdf", "Canteen handbook", []string{"# Canteen handbook\n\n###### p. 1\n\nThe canteen opens", "## Allergens", "\n- gluten: a yellow circle\n- milk: a blue square\n", "Soup 3.20\nDumplings 6.80\n"}, ""},
		{"typst17.pdf", "Bee-keeping in cities", []string{"## Swarms\n\n###### p. 1\n\nA swarm leaves in May", "## Varroa\n\n###### p. 2\n\nOxalic acid is dripped between the frames once, in December"}, ""},
		{"ghostscript14.pdf", "", []string{"The ferry leaves from pier four at half past nine.", "# Timetable", "Bicycles travel free of charge"}, ""},
		{"linearized15.pdf", "", []string{"The ferry leaves from pier four at half past nine.", "# Timetable"}, ""},
		{"groff.pdf", "", []string{"## NAME\n\n###### p. 1\n\noilcan", "## DESCRIPTION", "The cellar door needs two."}, ""},
		{"cairo.pdf", "", []string{"###### p. 1\n\nMap of the cellar\nThe fuse box is behind the wine rack."}, ""},
		{"cjk.pdf", "员工手册", []string{"# 员工手册\n\n###### p. 1\n\n每位家长都可以休十六周的育儿假。\n出差的签证费由差旅部支付。\n", "###### p. 2\n\n有給休暇は年に三十日です。"}, ""},
		{"form.pdf", "", []string{"Name of the vessel:", "Length in metres:", "Petrel of Stromness", "14.5"}, ""},
		{"owner.pdf", "Bee-keeping in cities", []string{"A colony needs at least forty kilograms"}, ""},
		{"scanned_part.pdf", "", []string{"###### p. 1\n\nThe first page was written", "###### p. 3\n\nThe third page"}, "no text on page 2: scanned"},
		{"cover.pdf", "", []string{"###### p. 2\n\nThe gate closes", "###### p. 3\n\nThe gate opens"}, ""},
		{"scanned.pdf", "", nil, "there is no text in it: its pages are scanned"},
		{"aes256.pdf", "", nil, "it is protected by a password"},
	} {
		t.Run(tc.file, func(t *testing.T) {
			d, reason := read(t, shared, file(t, tc.file))
			if reason != tc.reason || d.Name != tc.name || d.Text != "" && (d.Form != extract.Markdown || d.By != pdf.Version) || (d.Text == "") != (tc.parts == nil) {
				t.Errorf("name %q, form %d, by %q, reason %q", d.Name, d.Form, d.By, reason)
			}
			rest := d.Text
			for _, part := range tc.parts {
				_, after, found := strings.Cut(rest, part)
				if !found {
					t.Fatalf("%q is not in, or not in this place of\n%s", part, d.Text)
				}
				rest = after
			}
		})
	}
}

// A damaged or malicious file is read as far as possible, or rejected with a reason.
//
// Rows K8 and T26 of deploy/CONTRIBUTING.md.
func TestHostile(t *testing.T) {
	whole := file(t, "latex15.pdf")
	garbled := slices.Clone(whole)
	for i := 400; i < len(garbled); i += 97 {
		garbled[i] ^= 0x55
	}
	for _, tc := range []struct {
		name string
		raw  []byte
		want []string // one of them; "" for none
	}{
		{"no pdf", []byte("%PDF-1.4\n"), []string{"it is no PDF, or broken"}},
		{"nothing", nil, []string{"it is no PDF, or broken"}},
		{"another file", []byte(strings.Repeat("PK\x03\x04 zip", 1000)), []string{"it is no PDF, or broken"}},
		{"cut", extracttest.PDF("text")[:300], []string{"it is no PDF, or broken", "there is no text in it"}},
		{"cut in the middle", whole[:len(whole)/2], []string{"it is no PDF, or broken", "there is no text in it"}},
		{"cut before its end", extracttest.PDF("text")[:700], []string{""}},
		{"garbled", garbled, []string{"it is no PDF, or broken", "there is no text in it"}},
		{"pages below themselves", extracttest.PDFLoop(), []string{"there is no text in it", "page", "it is no PDF, or broken"}},
		{"no text", extracttest.PDF(""), []string{"there is no text in it"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, reason := read(t, shared, tc.raw)
			if !slices.ContainsFunc(tc.want, func(want string) bool { return strings.HasPrefix(reason, want) && (want != "" || reason == "") }) || (d.Text == "") == (reason == "") {
				t.Errorf("%q, %.60q; want one of %q", reason, d.Text, tc.want)
			}
		})
	}
}

// Reading that takes too long or too much memory is stopped, and the next file is read.
//
// Row K8 of deploy/CONTRIBUTING.md.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("fills the memory that there is")
	}
	for _, tc := range []struct {
		name string
		raw  []byte
		wall time.Duration
		text string // of the pages before
		want []string
	}{
		{"bomb", extracttest.PDFBomb(1 << 25), 0, "", []string{"reading it takes too much memory"}},
		{"calls", extracttest.PDFCalls("a page before", 12), 3 * time.Second, "###### p. 1\n\na page before\n", []string{
			"after page 1: reading it takes too long", "after page 1: reading it takes too much memory", // which comes first depends on the machine
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := pdf.New(extracttest.CodeCache())
			defer r.Rest()
			if _, reason := read(t, r, extracttest.PDF("before")); reason != "" { // compiling takes time
				t.Fatal(reason)
			}
			r.Limit = tc.wall
			start := time.Now()
			d, reason := read(t, r, tc.raw)
			t.Logf("%s after %v", reason, time.Since(start).Round(time.Millisecond))
			if !slices.Contains(tc.want, reason) || d.Text != tc.text {
				t.Errorf("%q, %q; want %q, %q", d.Text, reason, tc.text, tc.want)
			}
			r.Limit = 0
			if d, reason := read(t, r, extracttest.PDF("after")); reason != "" || !strings.Contains(d.Text, "after") {
				t.Errorf("then %q, %q", d.Text, reason)
			}
		})
	}
}

// pdfium has no access to files, whatever a document does.
//
// Row T26 of deploy/CONTRIBUTING.md.
func TestNoFiles(t *testing.T) {
	path, err := filepath.Abs(filepath.Join("testdata", "cairo.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.OpenPath(path); !errors.Is(err, pdf.ErrNoPDF) {
		t.Errorf("pdfium opens %s: %v", path, err)
	}
}

// Cancellation is reported as such, and not as a broken file.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := shared.Read(ctx, extracttest.PDFCalls("text", 12))
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if d, reason := read(t, shared, extracttest.PDF("after")); !strings.Contains(d.Text, "after") {
		t.Errorf("then %q, %q", d.Text, reason)
	}
}

// If more files than workers are read concurrently, each gets its own text.
func TestSideBySide(t *testing.T) {
	var wait sync.WaitGroup
	for _, word := range strings.Fields("one two three four five six") {
		wait.Go(func() {
			d, err := shared.Read(t.Context(), extracttest.PDF(word))
			if err != nil || !strings.Contains(d.Text, word+"\n") {
				t.Errorf("%s: %q, %v", word, d.Text, err)
			}
		})
	}
	wait.Wait()
}

// Machine code is cached where nobody else can write, and made again if it is damaged.
func TestCache(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles several times")
	}
	dir := filepath.Join(t.TempDir(), "code")
	if err := os.CopyFS(dir, os.DirFS(extracttest.CodeCache())); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder
		t.Fatal(err)
	}
	older := filepath.Join(dir, "wazero-v0-code")
	if err := os.Mkdir(older, 0o700); err != nil {
		t.Fatal(err)
	}
	works := func(dir string) {
		t.Helper()
		r := pdf.New(dir)
		defer r.Rest()
		if d, reason := read(t, r, extracttest.PDF("text")); !strings.Contains(d.Text, "text") {
			t.Errorf("%q, %q", d.Text, reason)
		}
	}
	works(dir)
	if _, err := os.Stat(older); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what another release has left is still there: %v", err)
	}
	damaged := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		damaged++
		return os.WriteFile(path, append(raw[:len(raw)/2], bytes.Repeat([]byte{0xcc}, len(raw)/4)...), 0o600)
	})
	if err != nil || damaged == 0 {
		t.Fatalf("%d files damaged, %v", damaged, err)
	}
	works(dir)
	if entries, err := os.ReadDir(filepath.Join(dir, pdf.Release())); err == nil {
		t.Errorf("damaged code is still there: %v", entries)
	}

	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil { //nolint:gosec // that is the point
		t.Fatal(err)
	}
	works(open)
	if entries, err := os.ReadDir(open); err != nil || len(entries) > 0 {
		t.Errorf("in a folder that others may read: %v, %v", entries, err)
	}
}

// The folder of a cache is created with its parents, and accessible to its owner only.
func TestPrivate(t *testing.T) {
	made := filepath.Join(t.TempDir(), "cache", "code")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{made: true, file: false, filepath.Join(file, "code"): false} {
		if got := pdf.Private(dir); got != want {
			t.Errorf("%s: %t", dir, got)
		}
	}
	if info, err := os.Stat(made); err != nil || info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A Reader that has read nothing has compiled and allocated nothing.
func TestLazy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "code")
	pdf.New(dir).Rest()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func BenchmarkRead(b *testing.B) {
	raw := file(b, "typst17.pdf")
	for b.Loop() {
		if _, err := shared.Read(b.Context(), raw); err != nil {
			b.Fatal(err)
		}
	}
}

// Reading terminates whatever the bytes are, and returns text.
func FuzzRead(f *testing.F) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".pdf" {
			f.Add(file(f, e.Name()))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := fuzzed.Read(t.Context(), raw)
		broken := (*extract.Broken)(nil)
		if err != nil && !errors.As(err, &broken) {
			t.Error(err)
		}
		if strings.ContainsAny(d.Text, "\r\x00\ufffe") || strings.ToValidUTF8(d.Text, "") != d.Text {
			t.Errorf("%q", d.Text)
		}
	})
}

// shared is used by most tests: a Reader has no state that one could see.
var (
	shared = pdf.New(extracttest.CodeCache())
	fuzzed = func() *pdf.Reader { r := pdf.New(extracttest.CodeCache()); r.Limit = 10 * time.Second; return r }()
)
