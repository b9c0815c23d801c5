package inspector

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// functions returns the functions for templates.
func functions() template.FuncMap {
	return template.FuncMap{
		"visible": Visible, "cut": cut, "count": count, "ms": ms, "score": score, "tone": tone, "statetone": stateTone, "clock": clock, "moment": moment, "join": join, "percent": percent, "usd": usd,
		"baseaddress": baseAddress, "tenantaddress": tenantAddress, "policyaddress": policyAddress, "documentaddress": documentAddress, "cacheName": cacheName, "experimentaddress": experimentAddress,
	}
}

// usd returns an amount of US dollars with six digits.
func usd(amount *float64) string { return fmt.Sprintf("%.6f", *amount) }

// Visible escapes control characters, and those that are invisible or change the order of others,
// so that nothing shown can look like something else.
func Visible(text string) string {
	if plain(text) {
		return text
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if hidden(r) {
			fmt.Fprintf(&b, "[U+%04X]", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// hidden reports whether a character is invisible: of categories C and Z, except the space.
func hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp) ||
		r != ' ' && unicode.Is(unicode.Zs, r) || unicode.Is(unicode.Variation_Selector, r)
}

// maxShown limits the bytes of a text in a page; the complete text is behind a link.
const maxShown = 200

// A longText is the beginning of a text.
type longText struct {
	Text  string
	More  int    // bytes that are left out
	Whole string // URL of the complete text; "" for none
}

// cut returns the beginning of a text for a page, made visible.
func cut(text, whole string) longText { return cutAt(text, whole, maxShown) }

// cutAt returns the first bytes of a text, made visible: at most limit bytes of the text, and at
// most twice as many in the page, where some characters take eight or more.
func cutAt(text, whole string, limit int) longText {
	end := endOf(text, limit)
	return longText{Visible(text[:end]), len(text) - end, whole}
}

// cutLines is like cutAt, but keeps line breaks.
func cutLines(text, whole string, limit int) longText {
	end := endOf(text, limit)
	return longText{visibleLines(text[:end]), len(text) - end, whole}
}

// endOf returns where to cut a text for cutAt.
func endOf(text string, limit int) int {
	room := 2 * limit
	for i, r := range text {
		if room -= shownSize(r); i+utf8.RuneLen(r) > limit && len(text) > limit || room < 0 {
			return i
		}
	}
	return len(text)
}

// shownSize returns the number of bytes that a character takes in a page.
func shownSize(r rune) int {
	switch {
	case r == '"' || r == '\'' || r == '&' || r == '<' || r == '>' || r == '+':
		return len("&#34;")
	case r >= ' ' && r <= '~':
		return 1
	case hidden(r):
		return len("[U&#43;00000]")
	}
	return utf8.RuneLen(r)
}

// count formats a number with thousands separators.
func count(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// ms formats milliseconds, with about three digits.
func ms(v any) string {
	var f float64
	switch v := v.(type) {
	case time.Duration:
		f = report.Milliseconds(v)
	case float64:
		f = v
	}
	switch {
	case f >= 100:
		return count(int64(f+.5)) + " ms"
	case f >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64) + " ms"
	}
	return strconv.FormatFloat(f, 'f', 2, 64) + " ms"
}

// join joins names with commas.
func join(names []string) string { return strings.Join(names, ", ") }

// score formats a score of any scale.
func score(f any) string {
	switch f := f.(type) {
	case float32:
		return strconv.FormatFloat(float64(f), 'g', 3, 32)
	case *float64:
		return strconv.FormatFloat(*f, 'g', 3, 64)
	}
	return strconv.FormatFloat(f.(float64), 'g', 3, 64)
}

func clock(t time.Time) string  { return t.UTC().Format("15:04:05") }
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// cacheName returns the display name of a cache.
func cacheName(cache string) string {
	if name := cacheNames[cache]; name != "" {
		return name
	}
	return cache
}

var cacheNames = map[string]string{
	"plans": "Plan", "selected": "Sources of the whole search", "candidates": "Candidates", "scores": "Scores", "fit": "What fits into the budget",
	"turns": "Turns with tools", "outputs": "Output",
}

// tone returns the CSS class of an outcome, from a closed list, since class names cannot be
// escaped like text.
func tone(o rewrite.Outcome) string {
	switch o {
	case rewrite.Injected, report.WithTools, report.Staged:
		return "good"
	case rewrite.Refused, report.Failed:
		return "bad"
	}
	return "calm"
}
