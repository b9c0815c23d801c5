// Package terminal writes log lines for a person at a terminal. Everything else logs JSON.
package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Request is what one line shows.
type Request struct {
	Time     time.Time
	ID       string
	Status   int           // of the answer; 0 when the client left before there was one
	Model    string        // as the request names it
	Outcome  string        // "injected", "untouched", …
	Reason   string        // why it is not injected, or not whole; "" when it is
	Calls    int           // of tools, by the model
	Sources  int           // up front, and by tools
	Tokens   int           // added, likewise
	Inexact  bool          // whether Tokens is a bound or an estimate
	Overhead time.Duration // what Sidenote added to the time of the answer
	Docs     []string      // documents of the sources, best first; repetitions are left out
	End      string        // why the answer did not reach the client whole; "" when it did
}

// Widths of the columns, in runes.
const (
	modelWidth = 10
	whatWidth  = 25
	docsWidth  = 26
)

// Append appends the line of a request, without a line break:
//
//	14:02:11  200  gpt-5-mini  4 sources  1,187 tokens  +3 ms   leave.md, benefits.md     01JD3…
//
// Whatever a client or a document chose is made harmless for terminals.
func Append(dst []byte, r Request) []byte {
	status := "---"
	if r.Status > 0 {
		status = strconv.Itoa(r.Status)
	}
	line := r.Time.Format(time.TimeOnly) + "  " + status + "  " + column(Clean(r.Model), modelWidth) + "  " +
		column(what(r), whatWidth) + "  " + column(overhead(r.Overhead), 6) + "  " + column(docs(r.Docs), docsWidth) + Clean(r.ID)
	return append(dst, strings.TrimRight(line, " ")...)
}

// Note is a line that belongs to no request: "14:02:31  note: …".
func Note(at time.Time, text string) string {
	return at.Format(time.TimeOnly) + "  note: " + Clean(text)
}

func what(r Request) string {
	text := r.Outcome
	switch {
	case r.Sources > 0:
		tokens := Thousands(r.Tokens)
		if r.Inexact {
			tokens = "~" + tokens
		}
		text = Plural(r.Sources, "source") + "  " + tokens + " tokens"
		if r.Reason != "" {
			text += "  " + r.Reason
		}
	case r.Reason != "":
		text += ": " + r.Reason
	}
	if r.Calls > 0 {
		text = Plural(r.Calls, "call") + "  " + text
	}
	if r.End != "" {
		text += "  " + r.End
	}
	return Clean(text)
}

// Mark is how answers cite a source of a prompt, "[3]"; "" for one that is not in it.
func Mark(id int) string {
	if id == 0 {
		return ""
	}
	return "[" + strconv.Itoa(id) + "]"
}

// Plural writes a number of things.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Thousands(n) + " " + thing + "s"
}

// Thousands writes n with a comma at each third digit.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Milliseconds is a duration as JSON has it.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// Short is a duration in milliseconds for a person: those below 10 with one digit after the
// point, those below tenths with two.
func Short(d time.Duration, tenths float64) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms >= 10:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= tenths:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}

func overhead(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "+" + strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
	case d < 10*time.Second:
		return "+" + strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return "+" + strconv.FormatInt(int64(d/time.Second), 10) + " s"
}

// docs joins names as long as they fit, then says how many are left.
func docs(names []string) string {
	var unique []string
	seen := map[string]bool{}
	for _, n := range names {
		if n = Clean(n); !seen[n] {
			seen[n] = true
			unique = append(unique, n)
		}
	}
	for n := len(unique); n > 1; n-- {
		text := strings.Join(unique[:n], ", ")
		if n < len(unique) {
			text += ", +" + strconv.Itoa(len(unique)-n)
		}
		if utf8.RuneCountInString(text) < docsWidth {
			return text
		}
	}
	switch len(unique) {
	case 0:
		return ""
	case 1:
		return clip(unique[0], docsWidth-1)
	}
	more := ", +" + strconv.Itoa(len(unique)-1)
	return clip(unique[0], docsWidth-1-len(more)) + more
}

// clip cuts text to n runes.
func clip(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// column fills text with spaces to n runes; a longer one stays whole, so that
// nothing is hidden from a person who reads.
func column(text string, n int) string {
	return text + strings.Repeat(" ", max(n-utf8.RuneCountInString(text), 0))
}

// maxClean is how much of a foreign text a line shows, in runes.
const maxClean = 120

// Clean makes foreign text fit for a terminal: one line, no control
// characters or direction marks, bounded.
func Clean(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, text)
	return clip(clean, maxClean)
}
