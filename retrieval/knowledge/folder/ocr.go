package folder

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/extract/pdf"
)

// The limits for one run of an OCR program.
const (
	maxOCRTime   = 2 * time.Minute
	maxOCRText   = 4 << 20 // bytes of output
	maxOCRReason = 200     // bytes of what it says about a failure
	// maxOCRRuns is how many programs run at a time for one folder.
	maxOCRRuns = 2
)

// ocr runs a program that prints the text of images and scanned PDF files.
type ocr struct {
	command []string // a program and its arguments; the path of a file follows them
	limit   time.Duration
	slots   chan struct{} // a semaphore
}

// newOCR returns nil if there is no command.
func newOCR(command []string) *ocr {
	if len(command) == 0 {
		return nil
	}
	command = slices.Clone(command)
	if strings.ContainsRune(command[0], filepath.Separator) { // it runs in a folder of its own
		if program, err := filepath.Abs(command[0]); err == nil {
			command[0] = program
		}
	}
	return &ocr{command: command, limit: maxOCRTime, slots: make(chan struct{}, maxOCRRuns)}
}

// reads reports whether the program is asked about files of a format.
func (o *ocr) reads(f extract.Format) bool {
	return o != nil && (f == extract.Image || f == extract.PDF)
}

// Rules returns the name of the rules by which a file is read: those for attributes, and the OCR
// command if it may be asked about the file. A file is read again when it changes.
func (s *Source) Rules(name string, rules [RulesBytes]byte) [RulesBytes]byte {
	if !s.ocr.reads(s.Format(name)) {
		return rules
	}
	sum := sha256.Sum256(chunk.Fields(append([]string{"sidenote ocr", string(rules[:])}, s.ocr.command...)...))
	return [RulesBytes]byte(sum[:])
}

// noTextSeen is the reason for an image in which the program finds no text.
const noTextSeen = "there is no text in it"

// document returns the text that the program prints for the content of a file.
func (o *ocr) document(ctx context.Context, name string, raw []byte) (extract.Document, error) {
	select {
	case o.slots <- struct{}{}:
		defer func() { <-o.slots }()
	case <-ctx.Done():
		return extract.Document{}, ctx.Err()
	}
	dir, err := os.MkdirTemp("", "sidenote-ocr-") // for its owner only
	if err != nil {
		return extract.Document{}, systemError(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "file"+strings.ToLower(path.Ext(name))) // a name cannot look like an option
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return extract.Document{}, systemError(err)
	}
	out, err := o.run(ctx, dir, file)
	if err != nil {
		return extract.Document{}, err
	}
	text, err := extract.Decode(bytes.ReplaceAll(out, []byte("\f"), []byte("\n\n")))
	switch {
	case err != nil:
		return extract.Document{}, extract.Brokenf("ocr: what %s prints is not text", path.Base(o.command[0]))
	case strings.TrimSpace(text) == "":
		return extract.Document{}, extract.Brokenf("%s", noTextSeen)
	}
	return extract.Document{Text: strings.TrimSpace(text) + "\n", By: "ocr"}, nil
}

// run runs the program and returns its output. A program that cannot be started is an error of the
// system, which is tried again; others are those of the file.
func (o *ocr) run(ctx context.Context, dir, file string) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	cmd := exec.CommandContext(limited, o.command[0], append(o.command[1:len(o.command):len(o.command)], file)...) //nolint:gosec // as configured
	cmd.Dir, cmd.Env = dir, ocrEnvironment(dir)
	cmd.WaitDelay = time.Second
	ownGroup(cmd)
	var said tail
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, systemError(err)
	}
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, systemError(err)
	}
	text, readErr := io.ReadAll(io.LimitReader(out, maxOCRText+1))
	if len(text) > maxOCRText {
		cancel()
	}
	err = cmd.Wait()
	endGroup(cmd)
	program := path.Base(o.command[0])
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(text) > maxOCRText:
		return nil, extract.Brokenf("ocr: %s prints more than %d MB", program, maxOCRText>>20)
	case limited.Err() != nil:
		return nil, extract.Brokenf("ocr: %s takes more than %v", program, o.limit)
	case err != nil:
		return nil, extract.Brokenf("ocr: %s: %v%s", program, err, said.line())
	case readErr != nil:
		return nil, systemError(readErr)
	}
	return text, nil
}

// systemError returns an error that is not of the file, so that it is tried again.
func systemError(err error) error {
	return &Failure{Kind: SkipUnreadable, Reason: fmt.Sprintf("ocr: %v", err)}
}

// ocrEnvironment returns the variables that a program gets: those that it needs to run and to choose
// a language, none of which holds a secret.
func ocrEnvironment(dir string) []string {
	list := append(environment(), "TMPDIR="+dir)
	for _, name := range []string{"PATH", "HOME", "LANG", "LC_ALL", "TESSDATA_PREFIX", "OMP_THREAD_LIMIT"} {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// A tail keeps the beginning of what a program says.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p[:min(len(p), maxOCRReason-len(t.text))]...)
	return len(p), nil
}

// line returns the first line, after a colon; "" if there is none.
func (t *tail) line() string {
	first, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(string(t.text), "")), "\n")
	first = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, first)
	if first == "" {
		return ""
	}
	return ": " + first
}

// scanned reports whether an error means that a PDF has no text, because its pages are images.
func scanned(f extract.Format, err error) bool {
	broken := (*extract.Broken)(nil)
	failure := (*Failure)(nil)
	switch {
	case f != extract.PDF || err == nil:
		return false
	case errors.As(err, &broken):
		return pdf.IsScanned(broken.Reason)
	case errors.As(err, &failure): // of a child process
		return pdf.IsScanned(failure.Reason)
	}
	return false
}

// withOCR returns an Extractor that asks the program about images, and about PDF files of which by
// reads nothing because they are scanned.
func (o *ocr) withOCR(by Extractor) Extractor {
	if o == nil {
		return by
	}
	return func(ctx context.Context, f extract.Format, name string, raw []byte) ([]extract.Document, error) {
		if f != extract.Image {
			documents, err := by(ctx, f, name, raw)
			if len(documents) > 0 || !scanned(f, err) {
				return documents, err
			}
		}
		d, err := o.document(ctx, name, raw)
		if err != nil {
			return nil, err
		}
		return []extract.Document{d}, nil
	}
}
