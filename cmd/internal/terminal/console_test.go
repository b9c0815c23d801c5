package terminal_test

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"sidenote/cmd/internal/terminal"
)

func TestAppend(t *testing.T) {
	at := time.Date(2026, 1, 2, 14, 2, 11, 0, time.UTC)
	for want, r := range map[string]terminal.Request{
		"14:02:11  200  gpt-5-mini  4 sources  1,187 tokens    +3 ms   leave.md, benefits.md     01JD3": {
			Status: 200, Model: "gpt-5-mini", Outcome: "injected", Sources: 4, Tokens: 1187, Overhead: 3 * time.Millisecond,
			Docs: []string{"leave.md", "leave.md", "benefits.md", "leave.md"}, ID: "01JD3"},
		"14:02:11  200  gpt-5-mini  untouched: no-match        +1 ms                             01JD4": {
			Status: 200, Model: "gpt-5-mini", Outcome: "untouched", Reason: "no-match", Overhead: 1900 * time.Microsecond, ID: "01JD4"},
		"14:02:11  ---  m           1 source  ~7 tokens  retrieval-timeout  +0.3 ms  a-rather-long-name.md, +2 x": {
			Model: "m", Outcome: "injected", Reason: "retrieval-timeout", Sources: 1, Tokens: 7, Inexact: true, Overhead: 300 * time.Microsecond,
			Docs: []string{"a-rather-long-name.md", "another-long-name.md", "c"}, ID: "x"},
		"14:02:11  200  m           relayed  cut_by_upstream   +1 ms                             x": {
			Status: 200, Model: "m", Outcome: "relayed", End: "cut_by_upstream", Overhead: time.Millisecond, ID: "x"},
		"14:02:11  200  m           2 calls  1 source  60 tokens  +1 ms   leave.md                  x": {
			Status: 200, Model: "m", Outcome: "tools", Calls: 2, Sources: 1, Tokens: 60, Docs: []string{"leave.md"}, Overhead: time.Millisecond, ID: "x"},
		"14:02:11  503  ·[31mevil·  refused: unavailable       +12 s   an-extremely-long-folder… 01": {
			Status: 503, Model: "\x1b[31mevil\n", Outcome: "refused", Reason: "unavailable", Overhead: 12 * time.Second, ID: "01",
			Docs: []string{"an-extremely-long-folder/and-a-name.md"}},
	} {
		r.Time = at
		if got := string(terminal.Append(nil, r)); got != want {
			t.Errorf("\ngot  %q\nwant %q", got, want)
		}
	}
	if got := terminal.Note(at, "POST /v1/responses passes\nunchanged"); got != "14:02:11  note: POST /v1/responses passes·unchanged" {
		t.Errorf("note %q", got)
	}
}

// Nothing that a client or document chose can move the cursor, start a line or
// turn the direction of writing.
func TestLinesAreHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := terminal.Request{
			Model: rapid.String().Draw(t, "model"), Reason: rapid.String().Draw(t, "reason"), ID: rapid.String().Draw(t, "id"),
			Sources: rapid.IntRange(0, 9).Draw(t, "sources"), Tokens: rapid.Int().Draw(t, "tokens"),
			Docs: rapid.SliceOf(rapid.String()).Draw(t, "docs"), Overhead: time.Duration(rapid.Int64().Draw(t, "overhead")),
		}
		line := string(terminal.Append(nil, r))
		if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("line %q", line)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	r := terminal.Request{Status: 200, Model: "gpt-5-mini", Sources: 4, Tokens: 1187, Docs: []string{"leave.md", "benefits.md"}, ID: "01JD3"}
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		buf = terminal.Append(buf[:0], r)
	}
}
