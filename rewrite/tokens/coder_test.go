package tokens

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

const alphabet = "abcdefghijklmnopqrstuvwxyz"

// chain returns the longest row of letters in which each pair is a token of a lower rank than the
// previous pair: how the letters pair up is decided at its end.
func chain(v *vocabulary) string {
	var pairs []string
	for id := range uint32(len(v.offsets) - 1) {
		if token := string(v.bytes(id)); len(token) == 2 && strings.Trim(token, alphabet) == "" {
			pairs = append(pairs, token) // sorted by rank
		}
	}
	best := map[string]string{} // longest chain so far by first letter
	for _, p := range pairs {
		if row := p[:1] + cmp.Or(best[p[1:]], p[1:]); len(row) > len(best[p[:1]]) {
			best[p[:1]] = row
		}
	}
	longest := ""
	for _, row := range best {
		if len(row) > len(longest) || len(row) == len(longest) && row < longest {
			longest = row
		}
	}
	return longest
}

// Windows whose overlap is shorter than the reach of a merge do not always fit together. If they
// do, they give the encoding of the whole; if not, that is detected.
func TestWindowsFitOrAreSeenNotTo(t *testing.T) {
	for _, file := range []string{"o200k_base", "cl100k_base", "p50k_base"} {
		v, err := newVocabulary(file, 0)
		if err != nil {
			t.Fatal(err)
		}
		c, row := newCoder(v), chain(v)
		fit := map[bool]int{}
		check := func(t interface{ Fatalf(string, ...any) }, text string) {
			want := slices.Clone(c.mergeQueued(text))
			if direct := c.mergeDirect(text); !slices.Equal(direct, want) {
				t.Fatalf("merged directly %q is %v, else %v", text, direct, want)
			}
			fit[c.joined(text, 96, 8)]++
			c.n, c.ids, c.keep = 0, c.ids[:0], true
			c.windows(text, 96, 8)
			if c.n != len(want) || !slices.EqualFunc(c.ids, want, func(a int, b uint32) bool { return a == int(b) }) {
				t.Fatalf("%q in windows is %v, whole %v", text, c.ids, want)
			}
		}
		for n := range 200 {
			check(t, strings.Repeat(alphabet, 8)[:n]+row+row)
		}
		if fit[true] == 0 || fit[false] == 0 {
			t.Errorf("%s: %d texts joined, %d not; want some of both", file, fit[true], fit[false])
		}
		rapid.Check(t, func(t *rapid.T) {
			letters := rapid.StringOfN(rapid.SampledFrom([]rune(alphabet)), 0, 300, -1)
			check(t, letters.Draw(t, "before")+strings.Repeat(row, rapid.IntRange(1, 5).Draw(t, "times"))+letters.Draw(t, "after"))
		})
	}
}

// A token has a higher rank than its halves, as the queue requires.
func TestTokensRankBehindTheirHalves(t *testing.T) {
	for _, file := range []string{"o200k_base", "cl100k_base", "p50k_base"} {
		v, err := newVocabulary(file, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, slot := range v.pairs {
			left, right, id := slot>>(2*idBits), slot>>idBits&(1<<idBits-1), slot&(1<<idBits-1)
			if slot != 0 && max(left, right) >= id {
				t.Errorf("%s: %d is made of %d and %d", file, id, left, right)
			}
		}
	}
}

func TestKindsAreThoseOfUnicode(t *testing.T) {
	k := newKinds()
	for r := range rune(0x110000) {
		if got, want := k.of(r), kindOf(r); got != want {
			t.Fatalf("kind of %U is %b, want %b", r, got, want)
		}
	}
}

func kindOf(r rune) kind {
	switch {
	case r == '\n' || r == '\r':
		return lineBreak
	case unicode.IsSpace(r):
		return blank
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper
	case unicode.Is(unicode.Ll, r):
		return lower
	case unicode.IsLetter(r):
		return caseless
	case unicode.IsMark(r):
		return combining
	case unicode.IsNumber(r):
		return number
	}
	return symbol
}
