package tokens_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite/tokens"
)

// asked is a Counter that records the texts it counts.
type asked struct {
	tokens.Counter
	bytes int
}

func (a *asked) Count(text string) (int, bool) {
	a.bytes += len(text)
	return a.Counter.Count(text)
}

// Known counts do not change any sum, whatever surrounds the text.
func TestKnowing(t *testing.T) {
	check(t, func(t *rapid.T, name string) {
		e := encoding(t, name)
		var known []tokens.Counted
		for _, body := range rapid.SliceOfN(text(12), 1, 3).Draw(t, "known") {
			n, _ := e.Count(body)
			known = append(known, tokens.Counted{Text: body, Tokens: n})
		}
		k := tokens.WithKnownCounts(e, known...)
		var parts []string
		for range rapid.IntRange(1, 5).Draw(t, "parts") {
			part := text(8).Draw(t, "part")
			if rapid.Bool().Draw(t, "of what is known") {
				part = rapid.SampledFrom(known).Draw(t, "which").Text
			}
			parts = append(parts, part)
		}
		whole := strings.Join(parts, "")
		if n, exact := tokens.Sum(k, parts...); n != truth(name, whole) || !exact {
			t.Fatalf("Sum(%q) = %d, %v; want %d", parts, n, exact, truth(name, whole))
		}
		if n, exact := tokens.Delta(k, parts[0], parts[1:]...); n != truth(name, whole)-truth(name, parts[0]) || !exact {
			t.Fatalf("Delta(%q) = %d, %v; want %d", parts, n, exact, truth(name, whole)-truth(name, parts[0]))
		}
	})
}

// Only little of a known text is counted, however it begins and ends.
func TestKnowingCountsLittle(t *testing.T) {
	for _, body := range []string{
		strings.Repeat("Every parent may take ten weeks of leave. ", 20) + "Ask the office.",
		strings.Repeat("Every parent may take ten weeks of leave ", 20) + "or not",
		"/* how */ " + strings.Repeat("if (x) { return y; }\n", 30) + "}",
		"- one\n" + strings.Repeat("- another\n", 40) + "- last!",
		strings.Repeat("有給休暇は年に二十日です。", 20) + "終わり。",
	} {
		e := encoding(t, "o200k_base")
		n, _ := e.Count(body)
		counter := &asked{Counter: e}
		k := tokens.WithKnownCounts(counter, tokens.Counted{Text: body, Tokens: n})
		const head, tail = "<source id=\"1\">\n", "\n</source>\n"
		sum, exact := tokens.Sum(k, head, body, tail)
		if want, _ := e.Count(head + body + tail); sum != want || !exact {
			t.Errorf("%.20q: %d, want %d", body, sum, want)
		}
		if most := len(head) + len(tail) + 120; counter.bytes > most {
			t.Errorf("%.20q: counted %d bytes of %d", body, counter.bytes, len(head+body+tail))
		}
	}
}
