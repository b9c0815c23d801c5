package tokens_test

import "testing"

// The counts of tiktoken for texts that its patterns split in unexpected ways.
func TestCounts(t *testing.T) {
	for _, row := range []struct {
		text          string
		o200k, cl100k int
	}{
		{"", 0, 0},

		// Line breaks and spaces.
		{"hello world", 2, 2},
		{"a\n \n b", 3, 3},
		{"a \n\n b", 3, 3},
		{"a\n\n\nb", 3, 3},
		{"a \n b", 3, 3},
		{"\n\n", 1, 1},
		{"\r\n", 1, 1},
		{"\r\n\r\n", 1, 1},
		{"a\r\nb", 3, 3},
		{"a\r\n \r\nb", 4, 4},
		{"a\n\rb", 4, 4},
		{"a\r\r\nb", 3, 3},
		{"  two", 2, 2},
		{"   three", 2, 2},
		{"     five  words", 4, 4},
		{"word ", 2, 2},
		{"word  ", 2, 2},
		{"word   \n", 2, 2},
		{" \n", 1, 1},
		{"\n ", 2, 2},
		{"\t", 1, 1},
		{"\ta", 1, 1},
		{"\t\tif x {\n\t\t\treturn\n\t\t}", 10, 10},
		{"    def f(x):\n        return x", 8, 8},
		{"a\tb", 2, 2},
		{" \t a", 2, 2},

		// Contractions and words.
		{"don't", 1, 2},
		{"DON'T", 2, 2},
		{"I'll we've they'RE", 5, 6},
		{"it's 1990's", 5, 6},
		{"1's", 2, 2},
		{"'s", 1, 1},
		{" 's", 2, 2},
		{"'S", 1, 1},
		{"o'clock 'tis", 4, 5},
		{"rock'n'roll", 4, 4},
		{"can’t", 2, 2},
		{"ſ's", 2, 3},
		{"fooBar", 2, 2},
		{"HTTPServer", 2, 2},
		{"XMLHttpRequest2", 4, 3},
		{"snake_case_name", 3, 3},
		{"kebab-case", 3, 3},
		{"CamelCaseABC", 3, 4},

		// Numbers.
		{"1", 1, 1},
		{"12", 1, 1},
		{"123", 1, 1},
		{"1234", 2, 2},
		{"12345", 2, 2},
		{"123456", 2, 2},
		{"1234567", 3, 3},
		{"12345678", 3, 3},
		{"123456789", 3, 3},
		{"1234567890", 4, 4},
		{"3.14159", 4, 4},
		{"1,000,000", 5, 5},
		{"٣٤٥٦", 4, 8},
		{"½ Ⅷ ²", 6, 6},

		// Scripts.
		{"休暇の日数", 4, 7},
		{"敏捷的棕色狐狸", 7, 14},
		{"한국어 문장입니다", 5, 7},
		{"ภาษาไทย", 2, 9},
		{"हिन्दी में", 4, 9},
		{"العربية", 2, 5},
		{"שלום עולם", 2, 10},
		{"שָׁלוֹם", 7, 11},
		{"Привет, мир!", 5, 7},
		{"Ελληνικά", 3, 9},

		// Emoji with joiners, flags, skin tones; marks.
		{"😀", 1, 2},
		{"👩\u200d👩\u200d👧", 8, 13},
		{"🇩🇪🇫🇷", 8, 12},
		{"👍🏽", 3, 6},
		{"e\u0301", 2, 2},
		{"\u00e9", 1, 1},
		{"a\u0301\u0302\u0303b", 5, 7},
		{"\u0301a", 2, 2},

		// Codes and names.
		{"aGVsbG8gd29ybGQ=", 11, 11},
		{"deadBEEF0123456789abcdef", 8, 9},
		{"550e8400-e29b-41d4-a716-446655440000", 18, 18},
		{"https://example.org/a/b?c=d&e=f#g", 12, 12},
		{"user@example.org", 3, 3},
		{`C:\Users\me`, 5, 5},

		// Special tokens are plain text.
		{"<|endoftext|>", 7, 7},
		{"<|im_start|>user<|im_end|>", 13, 13},
		{`<source id="1">`, 6, 5},
		{"</source>\n", 3, 3},
		{"&lt;b&gt;", 4, 4},
		{"{{QUERY}}", 3, 3},

		// Invisible runes.
		{"a\u200bb", 3, 3},
		{"a\u00a0b", 3, 3},
		{"a\u3000b", 3, 3},
		{"\ufeffa", 2, 2},
		{"a\u00adb", 3, 3},
		{"\u2028", 1, 2},
		{"\x00", 1, 1},
		{"\u0378", 2, 2},

		// Punctuation.
		{"....", 1, 1},
		{"// a\n", 3, 3},
		{"*/\n\n", 1, 1},
		{"a/\nb", 3, 3},
		{"!!!???", 2, 2},
		{"=====", 1, 1},
		{"-- --", 2, 2},
		{"#!/bin/sh", 3, 3},
		{"$x = $y;", 5, 5},
		{"ﬁ ß İ ǅ", 7, 8},
	} {
		for name, want := range map[string]int{"o200k_base": row.o200k, "cl100k_base": row.cl100k} {
			if n, exact := encoding(t, name).Count(row.text); n != want || !exact {
				t.Errorf("%s counts %q as %d, exact %v; want %d", name, row.text, n, exact, want)
			}
			if n := truth(name, row.text); n != want {
				t.Errorf("the reference counts %q as %d tokens of %s; want %d", row.text, n, name, want)
			}
		}
	}
}
