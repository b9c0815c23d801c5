package tokens

import (
	"testing"
	"unicode"
	"unicode/utf8"
)

// The classes agree with package unicode, whose tables are slower.
func TestClasses(t *testing.T) {
	for r := range rune(unicode.MaxRune + 1) {
		if !utf8.ValidRune(r) {
			continue
		}
		want := other
		switch {
		case unicode.IsLetter(r):
			want = letter
		case r == '\n' || r == '\r':
			want = newline
		case unicode.IsSpace(r):
			want = space
		case r == '/':
			want = slash
		case r == '\'':
			want = apostrophe
		case unicode.IsNumber(r):
			want = digit
		case unicode.IsMark(r):
			want = mark
		}
		if got, size := first(string(r)); got != want || size != utf8.RuneLen(r) {
			t.Fatalf("first(%q) = %d, %d; want %d", r, got, size, want)
		}
		if got, size := last(string(r)); got != want || size != utf8.RuneLen(r) {
			t.Fatalf("last(%q) = %d, %d; want %d", r, got, size, want)
		}
	}
}
