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

// A Request holds the data of a request's line.
type Request struct {
	Time     time.Time
	ID       string
	Status   int           // of the answer; 0 if the client left before there was one
	Model    string        // as named in the request
	Outcome  string        // "injected", "untouched", …
	Reason   string        // why it was not injected, or not completely; ""
	Calls    int           // of tools, by the model
	Sources  int           // up front, and by tools
	Tokens   int           // added, likewise
	Inexact  bool          // whether Tokens is a bound or an estimate
	Overhead time.Duration // what Sidenote added to the time of the answer
	Docs     []string      // documents of the sources, best first; duplicates are removed
	End      string        // why the client did not get the whole answer; ""
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

// Note formats a line that belongs to no request: "14:02:31  note: …".
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

// Mark returns the citation of a source in a prompt, "[3]", or "" for a source that is not in it.
func Mark(id int) string {
	if id == 0 {
		return ""
	}
	return "[" + strconv.Itoa(id) + "]"
}

// Plural formats a number of things.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Thousands(n) + " " + thing + "s"
}

// Thousands formats n with a comma at each third digit.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Milliseconds returns a duration as a JSON number.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// Short formats a duration in milliseconds: from 10 up without decimals, from tenths up with one,
// below that with two.
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

// docs joins names as long as they fit, and counts the rest.
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

// clip truncates text to n runes.
func clip(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// column pads text with spaces to n runes. Longer text stays whole, so that nothing is hidden.
func column(text string, n int) string {
	return text + strings.Repeat(" ", max(n-utf8.RuneCountInString(text), 0))
}

// maxClean limits how much of untrusted text a line shows, in runes.
const maxClean = 120

// Clean makes untrusted text safe for a terminal: one line, no control characters or direction
// marks, limited length.
func Clean(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, text)
	return clip(clean, maxClean)
}
