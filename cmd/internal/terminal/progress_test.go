package terminal_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
	"pgregory.net/rapid"

	"sidenote/cmd/internal/terminal"
)

// A bench is a Progress with its screen and clock.
type bench struct {
	terminal.Progress
	screen strings.Builder
	now    time.Time
	wide   int
}

func newBench(terminal bool, wide int) *bench {
	b := &bench{now: time.Date(2026, 1, 2, 14, 2, 11, 0, time.UTC), wide: wide}
	b.Writer, b.Terminal, b.Now, b.Width = &b.screen, terminal, func() time.Time { return b.now }, func() int { return b.wide }
	return b
}

func (b *bench) after(d time.Duration) { b.now = b.now.Add(d) }

// lines is what was written since, a state of the screen's line each.
func (b *bench) lines() []string {
	text := b.screen.String()
	b.screen.Reset()
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\r' || r == '\n' })
}

func (b *bench) want(t *testing.T, want ...string) {
	t.Helper()
	got := b.lines()
	if len(got) != len(want) {
		t.Fatalf("wrote %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("\ngot  %q\nwant %q", got[i], want[i])
		}
	}
}

func handbook(done int, chunks string) terminal.Work {
	return terminal.Work{Name: "handbook", Done: done, Total: 9870, Unit: "files", Note: chunks + " chunks"}
}

func TestProgressOnTerminal(t *testing.T) {
	b := newBench(true, 110)
	b.Show(terminal.Work{Name: "reading handbook"})
	b.want(t, "reading handbook")
	b.after(time.Second)
	b.Show(handbook(0, "0"))
	b.want(t, "handbook  [------------------------------]  0 of 9,870 files  0 chunks")
	b.Show(handbook(1, "12")) // too soon
	b.after(99 * time.Millisecond)
	b.Show(handbook(2, "20"))
	b.want(t)
	b.after(2701 * time.Millisecond)
	b.Show(handbook(1204, "12,001"))
	b.want(t, "handbook  [###---------------------------]  1,204 of 9,870 files  12,001 chunks  430/s  21 s left")
	b.after(20 * time.Second)
	b.Show(handbook(9870, "98,010"))
	b.want(t, "handbook  [##############################]  9,870 of 9,870 files  98,010 chunks  432/s           ")
}

func TestProgressGetsNarrow(t *testing.T) {
	for wide, want := range map[int]string{
		0:  "handbook  [#-----------]  1,204 of 9,870 files  12,001 chunks  430/s  21 s left",
		80: "handbook  [#-----------]  1,204 of 9,870 files  12,001 chunks  430/s  21 s left",
		78: "handbook  [#---------]  1,204 of 9,870 files  12,001 chunks  430/s  21 s left",
		70: "handbook  1,204 of 9,870 files  12,001 chunks  430/s  21 s left",
		60: "handbook  1,204 of 9,870 files  12,001 chunks  21 s left",
		45: "handbook  1,204 of 9,870 files  21 s left",
		36: "handbook  1,204 of 9,870 files",
		20: "handbook  1,204 of…",
		2:  "…",
	} {
		b := newBench(true, wide)
		b.Show(handbook(0, "0"))
		b.after(2800 * time.Millisecond)
		b.screen.Reset()
		b.Show(handbook(1204, "12,001"))
		got := strings.TrimRight(strings.TrimPrefix(b.screen.String(), "\r"), " ")
		if got != want {
			t.Errorf("%d columns:\ngot  %q\nwant %q", wide, got, want)
		}
	}
}

// The screen covers what was there before.
func TestProgressClear(t *testing.T) {
	b := newBench(true, 80)
	b.Show(terminal.Work{Name: "reading scifact"})
	b.after(100 * time.Millisecond)
	b.Show(terminal.Work{Name: "asking"})
	b.Clear()
	b.Clear()
	if want := "\rreading scifact\rasking         \r      \r"; b.screen.String() != want {
		t.Errorf("got %q, want %q", b.screen.String(), want)
	}
	var none *terminal.Progress
	none.Show(terminal.Work{Name: "nobody watches"})
	none.Clear()
	new(terminal.Progress).Clear()
}

func TestProgressElsewhere(t *testing.T) {
	b := newBench(false, 0)
	b.Show(handbook(0, "0"))
	b.after(9 * time.Second)
	b.Show(handbook(900, "9,000"))
	b.Clear() // not worth a line
	b.want(t)
	b = newBench(false, 0)
	for i := range 22 {
		b.Show(handbook(9*i, "some"))
		b.after(time.Second)
	}
	b.Clear()
	b.want(t,
		"handbook  90 of 9,870 files  some chunks  9.0/s  19 min left",
		"handbook  180 of 9,870 files  some chunks  9.0/s  18 min left")
}

// Somebody who reads a log learns every ten seconds that the work goes on, also while one file
// takes long, and nothing once it has ended.
func TestProgressRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(false, 80)
		b.Now = time.Now
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { b.Repeat(ctx); close(ended) }()
		time.Sleep(time.Minute) // nothing is shown yet
		b.Show(handbook(0, "0"))
		time.Sleep(time.Second)
		b.Show(handbook(10, "100"))
		time.Sleep(30 * time.Second)
		b.Clear()
		time.Sleep(time.Minute)
		b.Show(handbook(20, "200"))
		time.Sleep(500 * time.Millisecond)
		end()
		<-ended
		b.want(t,
			"handbook  10 of 9,870 files  100 chunks  1.0/s  3 h left",
			"handbook  10 of 9,870 files  100 chunks  0.5/s  6 h left",
			"handbook  10 of 9,870 files  100 chunks  0.3/s  9 h left",
			"handbook  20 of 9,870 files  200 chunks  0.2/s  13 h left")
	})
	b := newBench(true, 80)
	b.Repeat(t.Context()) // a terminal has its line: this returns
	var none *terminal.Progress
	none.Repeat(t.Context())
}

func TestLine(t *testing.T) {
	for want, took := range map[string]time.Duration{
		"handbook  1,204 of 9,870 files  12,001 chunks  120/s  72 s left": 10 * time.Second,
		"handbook  1,204 of 9,870 files  12,001 chunks":                   0,
	} {
		if got := terminal.Line(handbook(1204, "12,001"), took); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestProgressTimes(t *testing.T) {
	for want, took := range map[string]time.Duration{
		"w  1 of 2  1.0/s  1 s left": time.Second,
		"w  1 of 2  99 s left":       99 * time.Second,
		"w  1 of 2  2 min left":      100 * time.Second,
		"w  1 of 2  99 min left":     99 * time.Minute,
		"w  1 of 2  2 h left":        100 * time.Minute,
	} {
		b := newBench(true, 31) // no room for a bar
		b.Show(terminal.Work{Name: "w", Total: 2})
		b.after(took)
		b.lines()
		b.Show(terminal.Work{Name: "w", Done: 1, Total: 2})
		if got := b.lines(); len(got) != 1 || strings.TrimRight(got[0], " ") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Whatever is shown, no line is wider than the terminal, and nothing but the
// writing over moves the cursor.
func TestProgressFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wide := rapid.IntRange(1, 200).Draw(t, "wide")
		b := newBench(true, wide)
		for range 3 {
			total := rapid.IntRange(0, 1e9).Draw(t, "total")
			b.Show(terminal.Work{
				Name: rapid.SampledFrom([]string{"a", "索馬利亞手冊", "evil\x1b[31m\n", strings.Repeat("long", 50)}).Draw(t, "name"),
				Done: rapid.IntRange(-1, total+1).Draw(t, "done"), Total: total,
				Unit: rapid.String().Draw(t, "unit"), Note: rapid.String().Draw(t, "note"),
			})
			b.after(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "took")))
		}
		for _, line := range b.lines() {
			if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("line %q", line)
			}
			if n := across(line); n >= wide {
				t.Fatalf("%d columns of %d: %q", n, wide, line)
			}
		}
	})
}

func across(line string) (n int) {
	for _, r := range line {
		if n++; width.LookupRune(r).Kind() == width.EastAsianWide || width.LookupRune(r).Kind() == width.EastAsianFullwidth {
			n++
		}
	}
	return n
}

// A title takes no more columns than there are.
func TestFit(t *testing.T) {
	for _, tc := range []struct {
		text    string
		columns int
		want    string
	}{
		{"Leave", 5, "Leave"},
		{"Leave policy", 6, "Leave…"},
		{"索馬利亞", 8, "索馬利亞"},
		{"索馬利亞", 7, "索馬…"},
		{"two\nlines", 20, "two·lines"},
		{"none", 0, ""},
	} {
		if got := terminal.Fit(tc.text, tc.columns); got != tc.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", tc.text, tc.columns, got, tc.want)
		}
	}
}

// Lines are broken at spaces, and hold as much as fits.
func TestWrap(t *testing.T) {
	for _, tc := range []struct {
		text    string
		columns int
		want    []string
	}{
		{"How many weeks of leave", 9, []string{"How many", "weeks of", "leave"}},
		{"How many weeks of leave", 8, []string{"How many", "weeks of", "leave"}},
		{"a unbreakable b", 4, []string{"a", "unbreakable", "b"}},
		{"索馬 利亞", 8, []string{"索馬", "利亞"}},
		{"索馬 利亞", 9, []string{"索馬 利亞"}},
		{"", 5, []string{""}},
	} {
		if got := terminal.Wrap(tc.text, tc.columns); !slices.Equal(got, tc.want) {
			t.Errorf("Wrap(%q, %d) = %q, want %q", tc.text, tc.columns, got, tc.want)
		}
	}
}

func TestColumnsOfNoTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	if n := terminal.Columns(w); n != 0 {
		t.Errorf("a pipe has %d columns", n)
	}
	if n := terminal.Columns(new(strings.Builder)); n != 0 {
		t.Errorf("a string has %d columns", n)
	}
}
