// Package child reads PDF in a separate process, because its readers may hang or take any
// amount of memory on hostile files. The process is this program, started
// again, with limits on memory, time and output. If it fails, one file is reported as
// broken, and nothing else is affected.
//
// The child gets the file on stdin and the format as its argument, no environment
// and no other file. It answers with a frame on stdout (see frame.go). Where there
// is pdftotext, that is the child for PDF, and its output is the text.
package child

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"

	"sidenote/retrieval/knowledge/extract"
)

// The limits for one file.
const (
	maxWall   = 20 * time.Second // from start to end
	maxCPU    = 10               // seconds of processor time
	maxMemory = 768 << 20        // bytes of address space beyond what an idle process has
	maxFiles  = 64               // open at once
	maxErrors = 4 << 10          // bytes of its stderr that are kept
)

// maxChildren is how many children a Runner has at once; each may take the maximum of
// memory.
const maxChildren = 4

// A Runner reads files in processes of their own. Its methods may be called by
// several goroutines at once.
type Runner struct {
	// Command starts a child: a program that calls Main with the arguments after it.
	Command []string
	// PDFToText is the path of poppler's pdftotext; "" reads PDF by a library in the
	// child, which knows fewer fonts and layouts.
	PDFToText string
	// Wall bounds the time for one file; 0 is twenty seconds.
	Wall time.Duration

	slots chan struct{} // one for each child there may be
}

// New returns a Runner that starts children by command; pdfToText may be "".
func New(command []string, pdfToText string) *Runner {
	return &Runner{Command: command, PDFToText: pdfToText, slots: make(chan struct{}, maxChildren)}
}

// By names the program that reads a format on this machine: another one may read other
// text out of the same file.
func (r *Runner) By(f extract.Format) string {
	switch {
	case f != extract.PDF:
		return ""
	case r.PDFToText != "":
		return "pdftotext"
	}
	return "pdf"
}

var (
	errTooLong   = extract.Brokenf("reading it takes too long")
	errTooLarge  = extract.Brokenf("reading it takes too much memory")
	errGaveUp    = extract.Brokenf("its reader gave up on it")
	errNoPDF     = extract.Brokenf("it is no PDF, or broken")
	errProtected = extract.Brokenf("it is protected by a password or its author")
	errNoText    = extract.Brokenf("there is no text in it; it may be scanned")
)

// Read returns the document in raw. Errors are a *extract.Broken, the error of ctx, or
// say that no child could be started.
func (r *Runner) Read(ctx context.Context, format extract.Format, raw []byte) (extract.Document, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return extract.Document{}, ctx.Err()
	}
	out, err := r.run(ctx, format, raw)
	if err != nil {
		return extract.Document{}, err
	}
	d := extract.Document{Text: string(out)}
	if r.By(format) != "pdftotext" {
		if d, err = parseFrame(out); err != nil {
			return extract.Document{}, err
		}
	}
	d.By = r.By(format)
	if d.Text, err = extract.Decode([]byte(strings.ReplaceAll(d.Text, "\x00", ""))); err != nil {
		return extract.Document{}, err
	}
	if format == extract.PDF {
		d.Text = pages(d.Text)
	}
	if strings.TrimSpace(d.Text) == "" {
		return extract.Document{}, errNoText
	}
	return d, nil
}

// run returns the output of a child that succeeds.
func (r *Runner) run(ctx context.Context, format extract.Format, raw []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(r.Wall, maxWall), errTooLong)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cmd, begun := r.command(ctx, format, raw)
	out := &capped{most: extract.MaxText + maxHead, full: func() { stop(extract.ErrTooMuchText) }}
	errs := &capped{most: maxErrors, full: func() {}}
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Start()
	if err == nil {
		limited := begun(cmd.Process.Pid)
		err = cmp.Or(limited, cmd.Wait())
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, reasonOf(exit, errs.b.String(), format)
	}
	return out.b.Bytes(), err
}

// command returns the command that reads a file. The caller calls begun after the start:
// it sets the limits of a program that does not limit itself, and only then does the
// child get the file.
func (r *Runner) command(ctx context.Context, format extract.Format, raw []byte) (cmd *exec.Cmd, begun func(pid int) error) {
	stdin := &gate{r: bytes.NewReader(raw), open: make(chan struct{})}
	begun = func(int) error { close(stdin.open); return nil }
	if format == extract.PDF && r.PDFToText != "" {
		cmd = exec.CommandContext(ctx, r.PDFToText, "-q", "-enc", "UTF-8", "-eol", "unix", "-", "-")
		begun = func(pid int) error {
			err := limitOther(pid)
			if err != nil {
				stdin.r.Reset(nil) // without limits it must not get the file
			}
			close(stdin.open)
			return err
		}
	} else {
		cmd = exec.CommandContext(ctx, r.Command[0], append(r.Command[1:len(r.Command):len(r.Command)], format.String())...)
	}
	cmd.Stdin = stdin
	cmd.Env = environment()
	cmd.WaitDelay = time.Second
	isolate(cmd)
	return cmd, begun
}

// A gate is a reader that blocks until it is opened.
type gate struct {
	r    *bytes.Reader
	open chan struct{}
}

func (g *gate) Read(p []byte) (int, error) {
	<-g.open
	return g.r.Read(p)
}

// reasonOf returns the error for a child that failed.
func reasonOf(exit *exec.ExitError, said string, format extract.Format) error {
	said = strings.ToLower(said)
	switch {
	case strings.Contains(said, "out of memory"), strings.Contains(said, "bad_alloc"), strings.Contains(said, "cannot allocate"), strings.Contains(said, "failed to allocate"):
		return errTooLarge
	case outOfTime(exit):
		return errTooLong
	case format == extract.PDF && (exit.ExitCode() == 3 || strings.Contains(said, "password")):
		return errProtected
	case format == extract.PDF && exit.ExitCode() == 1:
		return errNoPDF
	}
	return errGaveUp
}

// A capped writer keeps a limited number of bytes and records whether there were more.
type capped struct {
	b    bytes.Buffer
	most int
	full func()
}

func (c *capped) Write(p []byte) (int, error) {
	if room := c.most - c.b.Len(); len(p) > room {
		c.b.Write(p[:room])
		c.full()
	} else {
		c.b.Write(p)
	}
	return len(p), nil
}

// pages joins the pages of a PDF, and words that are divided at the end of a line.
func pages(text string) string {
	text = strings.ReplaceAll(text, "\f", "\n\n")
	var b strings.Builder
	for {
		at := strings.Index(text, "-\n")
		if at < 0 {
			break
		}
		rest := strings.TrimLeft(text[at+2:], " ")
		if divided(text[:at], rest) {
			b.WriteString(text[:at])
		} else {
			b.WriteString(text[:at+2])
		}
		text = rest
	}
	b.WriteString(text)
	return b.String()
}

// divided tells whether a hyphen between two lines divides a word: small letters
// stand on both sides.
func divided(before, after string) bool {
	small := func(s string, at int) bool { return at >= 0 && at < len(s) && 'a' <= s[at] && s[at] <= 'z' }
	return small(before, len(before)-1) && small(after, 0)
}
