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

// functions are those of the templates.
func functions() template.FuncMap {
	return template.FuncMap{
		"visible": visible, "cut": cut, "count": count, "ms": ms, "score": score, "tone": tone, "statetone": stateTone, "clock": clock, "moment": moment, "join": join, "percent": percent,
		"baseaddress": baseAddress, "tenantaddress": tenantAddress, "policyaddress": policyAddress, "documentaddress": documentAddress, "cacheName": cacheName,
	}
}

// visible returns a text with its control characters, and those that change the order of
// others or take no room, as people can see them: nothing shown may look like something else.
func visible(text string) string {
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

// hidden tells whether nobody would see a character: of categories C and Z, but the space.
func hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp) ||
		r != ' ' && unicode.Is(unicode.Zs, r) || unicode.Is(unicode.Variation_Selector, r)
}

// maxShown is how much of a text a page shows, in bytes; the whole stands behind a link.
const maxShown = 200

// A longText is the beginning of a text.
type longText struct {
	Text  string
	More  int    // bytes that are left out
	Whole string // an address where they are; "" for none
}

// cut returns as much of a text as a page shows, visible.
func cut(text, whole string) longText { return cutAt(text, whole, maxShown) }

// cutAt returns the first bytes of a text, visible: at most limit of them, and at most twice as many
// in the page, where some characters take eight and more.
func cutAt(text, whole string, limit int) longText {
	end := endOf(text, limit)
	return longText{visible(text[:end]), len(text) - end, whole}
}

// cutLines is cutAt with lines as they are.
func cutLines(text, whole string, limit int) longText {
	end := endOf(text, limit)
	return longText{visibleLines(text[:end]), len(text) - end, whole}
}

// endOf returns where a text ends that is cut at so many bytes, or twice as many in the page.
func endOf(text string, limit int) int {
	room := 2 * limit
	for i, r := range text {
		if room -= shownSize(r); i+utf8.RuneLen(r) > limit && len(text) > limit || room < 0 {
			return i
		}
	}
	return len(text)
}

// shownSize is how many bytes a character takes in a page.
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

// count writes a number with commas.
func count(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// ms writes milliseconds, with three digits or so.
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

// join writes names after each other.
func join(names []string) string { return strings.Join(names, ", ") }

// score writes a score, which has any scale.
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

// cacheName says what a cache keeps.
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

// tone is the class of an outcome: of a closed list, as classes of CSS cannot be shown as
// text.
func tone(o rewrite.Outcome) string {
	switch o {
	case rewrite.Injected, report.WithTools, report.Staged:
		return "good"
	case rewrite.Refused, report.Failed:
		return "bad"
	}
	return "calm"
}
