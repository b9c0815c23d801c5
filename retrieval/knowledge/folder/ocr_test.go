//go:build unix

package folder_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"sidenote/retrieval/knowledge/extract/extracttest"
	"sidenote/retrieval/knowledge/extract/pdf"
	"sidenote/retrieval/knowledge/folder"
)

// readOCR reads a file with a shell script as its OCR program, and returns the text and the failure.
func readOCR(ctx context.Context, t *testing.T, name, content string, p *pdf.Reader, limit time.Duration, script string) (text string, skip *folder.Skip) {
	t.Helper()
	s := folder.FromFS(fstest.MapFS{name: {Data: []byte(content)}})
	f := folder.Folder{ID: "x", OCR: []string{"sh", "-c", script, "ocr"}}
	if script == "" {
		f.OCR = []string{"/nowhere/ocr"}
	}
	files, _, err := s.Files(t.Context(), f, p)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	folder.LimitOCR(s, limit)
	documents, skip := s.Read(ctx, name, p)
	for _, d := range documents {
		text += d.Text
	}
	return text, skip
}

// The program gets a copy of the file as its last argument, and prints the text.
func TestOCR(t *testing.T) {
	t.Setenv("SIDENOTE_KEY", "secret")
	for name, tc := range map[string]struct{ script, text, kind, reason string }{
		"text":          {`cat "$1"; echo; echo "${1##*.}"`, "a picture\npng\n", "", ""},
		"pages":         {`printf 'one\ftwo\f'`, "one\n\ntwo\n", "", ""},
		"environment":   {`env | grep SIDENOTE_KEY= || echo clean`, "clean\n", "", ""},
		"nothing":       {`printf ' \f'`, "", "unsupported", "there is no text in it"},
		"a failure":     {`echo "no language deu" >&2; exit 3`, "", "broken", "ocr: sh: exit status 3: no language deu"},
		"a loud one":    {`yes word | head -c 1000000 >&2; exit 3`, "", "broken", "ocr: sh: exit status 3: word"},
		"too much":      {`yes`, "", "broken", "ocr: sh prints more than 4 MB"},
		"no text":       {`printf 'a\000\001\002b'`, "", "broken", "ocr: what sh prints is not text"},
		"its own input": {`cat; echo end`, "end\n", "", ""},
		"missing":       {"", "", "unreadable", "ocr: fork/exec /nowhere/ocr: no such file"},
	} {
		text, skip := readOCR(t.Context(), t, "Scan -1.PNG", "a picture", nil, time.Minute, tc.script)
		got := folder.Skip{}
		if skip != nil {
			got = *skip
		}
		if text != tc.text || string(got.Kind) != tc.kind || !strings.Contains(got.Reason, tc.reason) {
			t.Errorf("%s: text %q, %+v", name, text, got)
		}
	}
}

// A program that hangs is ended, with what it started.
func TestOCRHangs(t *testing.T) {
	if text, skip := readOCR(t.Context(), t, "a.png", "a", nil, 50*time.Millisecond, `sleep 600 & sleep 600`); text != "" || skip == nil || skip.Reason != "ocr: sh takes more than 50ms" {
		t.Errorf("text %q, %+v", text, skip)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, skip := readOCR(ctx, t, "a.png", "a", nil, time.Hour, `sleep 600`); skip == nil || skip.Reason != context.Canceled.Error() {
		t.Errorf("cancelled: %+v", skip)
	}
}

// A scanned PDF is read by the program; one with text on some pages is not.
func TestOCRofPDF(t *testing.T) {
	p := pdf.New(extracttest.CodeCache())
	for name, want := range map[string]string{"scanned.pdf": "text of the scan\n", "cairo.pdf": "", "scanned_part.pdf": ""} {
		raw, err := os.ReadFile(filepath.Join("../extract/pdf/testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		text, skip := readOCR(t.Context(), t, name, string(raw), p, time.Minute, `grep -q "^%PDF" "$1" && echo text of the scan`)
		if want != "" && (text != want || skip != nil) || want == "" && (text == "" || strings.Contains(text, "of the scan")) {
			t.Errorf("%s: text %q, %+v", name, text, skip)
		}
	}
}

// Without a program, images are listed with what to do; a file is read again when it changes.
func TestOCRCommand(t *testing.T) {
	s := folder.FromFS(fstest.MapFS{"a.png": {}, "b.md": {}})
	files, skipped, err := s.Files(t.Context(), folder.Folder{ID: "x"}, nil)
	if err != nil || len(files) != 1 || len(skipped) != 1 || (folder.Report{Skipped: skipped}).SkippedGroups()[0].Remedy != "to read text in them, set ocr" {
		t.Fatal(files, skipped, err)
	}
	own := [folder.RulesBytes]byte{1}
	names := map[[folder.RulesBytes]byte]bool{s.Rules("a.png", own): true}
	for _, command := range [][]string{{"a"}, {"a", "b"}, {"a b"}} {
		if files, _, err = s.Files(t.Context(), folder.Folder{ID: "x", OCR: command}, nil); err != nil || len(files) != 2 {
			t.Fatal(files, err)
		}
		names[s.Rules("a.png", own)] = true
		if s.Rules("b.md", own) != own {
			t.Error("the command changes the rules of a text")
		}
	}
	if len(names) != 4 {
		t.Errorf("%d names of 4 commands", len(names))
	}
}

// No more programs run at a time than allowed.
func TestOCRWaits(t *testing.T) {
	s := folder.FromFS(fstest.MapFS{"a.png": {}})
	if _, _, err := s.Files(t.Context(), folder.Folder{ID: "x", OCR: []string{"true"}}, nil); err != nil {
		t.Fatal(err)
	}
	folder.FillOCR(s)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, skip := s.Read(ctx, "a.png", nil); skip == nil || skip.Reason != context.Canceled.Error() {
		t.Errorf("%+v", skip)
	}
}
