package child_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/extract/child"
	"sidenote/retrieval/knowledge/extract/extracttest"
)

// The test binary is the child too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "child":
			os.Exit(child.Main(os.Args[2:], os.Stdin, os.Stdout))
		case "misbehave":
			misbehave(os.Args[2])
		}
	}
	os.Exit(m.Run())
}

// misbehave does what readers do on files made for it.
func misbehave(how string) {
	w := bufio.NewWriter(os.Stdout)
	switch how {
	case "sleep":
		<-time.After(time.Hour)
	case "flood":
		for {
			_, _ = w.WriteString("more and more\n")
		}
	case "half":
		_, _ = os.Stdout.WriteString("sidenote-extract 1 ok 1 0 100\nhalf")
	case "fork":
		cmd := exec.Command(os.Args[0], "misbehave", "sleep")
		cmd.Stdout = os.Stdout // keeps the pipe open
		_ = cmd.Start()
		<-time.After(time.Hour)
	case "hog":
		if err := child.Limit(); err != nil {
			panic(err)
		}
		var held [][]byte
		for {
			held = append(held, bytes.Repeat([]byte("x"), 1<<20))
			runtime.KeepAlive(held)
		}
	case "nothing":
	}
	os.Exit(0)
}

func runner(t *testing.T, args ...string) *child.Runner {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return child.New(append([]string{self}, args...), "")
}

// withPDFToText runs f by the library, and by pdftotext where that is installed.
func withPDFToText(t *testing.T, f func(t *testing.T, r *child.Runner)) {
	t.Run("library", func(t *testing.T) { f(t, runner(t, "child")) })
	t.Run("pdftotext", func(t *testing.T) {
		path, err := exec.LookPath("pdftotext")
		if err != nil {
			t.Skip("pdftotext is not installed")
		}
		r := runner(t, "child")
		r.PDFToText = path
		f(t, r)
	})
}

func TestPDF(t *testing.T) {
	withPDFToText(t, func(t *testing.T, r *child.Runner) {
		d, err := r.Read(t.Context(), extract.PDF, extracttest.PDF("Parental leave is sixteen weeks.\nIt is paid in full.", "The second page is about tra-\nvel and \\(other\\) things."))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Parental leave is sixteen weeks.\nIt is paid in full.\n", "The second page is about travel and"} {
			if !strings.Contains(d.Text, want) {
				t.Errorf("%q lacks %q", d.Text, want)
			}
		}
		if d.By != r.By(extract.PDF) || d.By == "" {
			t.Errorf("read by %q", d.By)
		}
	})
}

// A file that is hurt, or made to hurt, fails alone and says why.
//
// Row K8 of deploy/CONTRIBUTING.md.
func TestHostile(t *testing.T) {
	withPDFToText(t, func(t *testing.T, r *child.Runner) {
		for _, tc := range []struct {
			name   string
			format extract.Format
			raw    []byte
			want   []string // one of them
		}{
			{"no pdf", extract.PDF, []byte("%PDF-1.4\n"), []string{"no PDF", "gave up"}},
			{"nothing", extract.PDF, nil, []string{"no PDF"}},
			{"cut pdf", extract.PDF, extracttest.PDF("text")[:300], []string{"no PDF", "gave up", "no text"}},
			{"pdf bomb", extract.PDF, extracttest.PDFBomb(1 << 25), []string{"memory", "long", "MB", "gave up", "no text"}},
			{"pdf loop", extract.PDF, extracttest.PDFLoop(), []string{"long", "memory", "no PDF", "gave up", "no text"}},
			{"empty pdf", extract.PDF, extracttest.PDF(""), []string{"no text"}},
		} {
			start := time.Now()
			bounded := *r
			if bounded.Wall = 0; strings.Contains(tc.name, "loop") || strings.Contains(tc.name, "bomb") {
				bounded.Wall = time.Second // it would take all the time that there is
			}
			d, err := bounded.Read(t.Context(), tc.format, tc.raw)
			t.Logf("%s: %v in %v", tc.name, err, time.Since(start).Round(time.Millisecond))
			broken := (*extract.Broken)(nil)
			if !errors.As(err, &broken) || !containsAny(broken.Reason, append(tc.want, wall(bounded)...)) {
				t.Errorf("%s: %.80q, %v; want one of %q", tc.name, d.Text, err, tc.want)
			}
		}
	})
}

// wall is what is said of any file where a machine is too busy to start reading.
func wall(r child.Runner) []string {
	if r.Wall == 0 {
		return nil
	}
	return []string{"long"}
}

func containsAny(s string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// Whatever a child does, reading ends, and with it everything that was started.
func TestMisbehaviour(t *testing.T) {
	noMemory := "too much memory"
	if child.Raced {
		noMemory = ""
	}
	for _, tc := range []struct{ how, want string }{
		{"sleep", "too long"}, {"fork", "too long"}, {"flood", "MB of text"}, {"hog", noMemory}, {"half", "gave up"}, {"nothing", "gave up"},
	} {
		t.Run(tc.how, func(t *testing.T) {
			if tc.how == "fork" && runtime.GOOS != "linux" {
				t.Skip("only Linux has process groups here")
			}
			r := runner(t, "misbehave", tc.how)
			if tc.want == "too long" {
				r.Wall = time.Second
			}
			_, err := r.Read(t.Context(), extract.PDF, make([]byte, 1<<20))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// A caller who gives up is not told that the file is broken.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runner(t, "misbehave", "sleep").Read(ctx, extract.PDF, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r := child.New([]string{"/nonexistent/sidenote"}, "")
	broken := (*extract.Broken)(nil)
	if _, err := r.Read(t.Context(), extract.PDF, nil); err == nil || errors.As(err, &broken) {
		t.Errorf("a child that cannot be started: %v", err)
	}
}
