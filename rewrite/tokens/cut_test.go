package tokens_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"sidenote/rewrite/tokens"
)

func TestCutHoldsTheBudget(t *testing.T) {
	check(t, func(t *rapid.T, name string) {
		e := encoding(t, name)
		s := rapid.OneOf(text(60), long()).Draw(t, "text")
		max := rapid.IntRange(-1, 80).Draw(t, "max")
		got := tokens.Cut(e, s, max)
		if !strings.HasPrefix(s, got) || !utf8.ValidString(got) {
			t.Fatalf("Cut(%q, %d) = %q: no prefix", s, max, got)
		}
		if n, _ := e.Count(got); n > max && got != "" {
			t.Fatalf("Cut(%q, %d) = %q: %d tokens", s, max, got, n)
		}
		if n, _ := e.Count(s); n <= max && got != s {
			t.Fatalf("Cut(%q, %d) = %q: all %d fit", s, max, got, n)
		}
		if r, _ := utf8.DecodeRuneInString(s[len(got):]); got != "" && unicode.IsMark(r) {
			t.Fatalf("Cut(%q, %d) = %q: before a mark", s, max, got)
		}
	})
}

func TestCut(t *testing.T) {
	e := encoding(t, "o200k_base")
	f := func(s string, max int, want string) {
		t.Helper()
		if got := tokens.Cut(e, s, max); got != want {
			t.Errorf("Cut(%q, %d) = %q, want %q", s, max, got, want)
		}
	}
	f("one two three", 0, "")
	f("one two three", 2, "one two")
	f("one two three", 3, "one two three")
	f("One two three four five six seven eight nine. Ten eleven", 11, "One two three four five six seven eight nine.")
	f("One two three four five six seven eight nine\nten eleven", 11, "One two three four five six seven eight nine")
	f("One two. Three four five six seven eight nine ten eleven", 9, "One two. Three four five six seven eight")
	f("हिन्दी。\u0301 ", 5, "हिन्दी。\u0301") // not between a full stop and its mark
	f("abcdefghijklmnopqrstuvwxyz", 1, "abcdefghijklmnopqrstuvwxyz")
	if got := tokens.Cut(e, strings.Repeat("有薪假期的天数", 20), 10); len(got) < 15 {
		t.Errorf("Cut of Chinese leaves %q", got)
	}
	if got := tokens.Cut(words{}, "one two three four", 2); got != "one two" {
		t.Errorf("Cut by words = %q", got)
	}
}
