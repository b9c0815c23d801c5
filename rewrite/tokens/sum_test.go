package tokens_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite/tokens"
)

// words counts words, so that a reader can check results by eye. Sums work with it, too.
type words struct{}

func (words) Count(text string) (int, bool) { return len(strings.Fields(text)), true }

// check runs prop on 4,000 cases, 1,000 in each encoding.
func check(t *testing.T, prop func(*rapid.T, string)) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				for range 10 {
					prop(t, name)
				}
			})
		})
	}
}

func TestSumIsTheCountOfTheWhole(t *testing.T) {
	check(t, func(t *rapid.T, name string) {
		parts := rapid.SliceOfN(text(8), 0, 6).Draw(t, "parts")
		whole := strings.Join(parts, "")
		n, exact := tokens.Sum(encoding(t, name), parts...)
		if want := truth(name, whole); n != want || !exact {
			t.Fatalf("Sum(%q) = %d, %v; want %d", parts, n, exact, want)
		}
	})
}

func TestDeltaIsTheDifference(t *testing.T) {
	check(t, func(t *rapid.T, name string) {
		old := text(12).Draw(t, "old")
		added := rapid.SliceOfN(text(6), 0, 3).Draw(t, "added")
		n, exact := tokens.Delta(encoding(t, name), old, added...)
		want := truth(name, old+strings.Join(added, "")) - truth(name, old)
		if n != want || !exact {
			t.Fatalf("Delta(%q, %q) = %d, %v; want %d", old, added, n, exact, want)
		}
	})
}

func TestBetweenIsTheDifference(t *testing.T) {
	check(t, func(t *rapid.T, name string) {
		left, mid, right := text(8).Draw(t, "left"), text(8).Draw(t, "mid"), text(8).Draw(t, "right")
		n, exact := tokens.Between(encoding(t, name), left, mid, right)
		want := truth(name, left+mid+right) - truth(name, left+right)
		if n != want || !exact {
			t.Fatalf("Between(%q, %q, %q) = %d, %v; want %d", left, mid, right, n, exact, want)
		}
	})
}

// If something is not UTF-8, no sum and no difference is too small.
func TestSumsBoundBadBytes(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			e := encoding(t, name)
			rapid.Check(t, func(t *rapid.T) {
				a, b, c := broken().Draw(t, "a"), text(5).Draw(t, "b"), broken().Draw(t, "c")
				ab, abc, ac := truth(name, a+b), truth(name, a+b+c), truth(name, a+c)
				hold := func(what string, n int, exact bool, want int) {
					if n < want || exact && n != want {
						t.Fatalf("%s of %.80q %.80q %.80q = %d, %v; want %d", what, a, b, c, n, exact, want)
					}
				}
				n, exact := tokens.Sum(e, a, b, c)
				hold("Sum", n, exact, abc)
				n, exact = tokens.Delta(e, a, b, c)
				hold("Delta", n, exact, abc-truth(name, a))
				n, exact = tokens.Delta(e, a, b)
				hold("Delta", n, exact, ab-truth(name, a))
				n, exact = tokens.Between(e, a, b, c)
				hold("Between", n, exact, abc-ac)
			})
		})
	}
}

// broken draws a text with an invalid byte or a truncated rune.
func broken() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return text(6).Draw(t, "before") + rapid.SampledFrom([]string{"\xff", "\xe4\xb8", "\xad", "\xf0\x9f\x98"}).Draw(t, "bad") + text(6).Draw(t, "after")
	})
}

func TestSumsHoldForWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(text(8), 0, 6).Draw(t, "parts")
		whole, _ := words{}.Count(strings.Join(parts, ""))
		if n, _ := tokens.Sum(words{}, parts...); n != whole {
			t.Fatalf("Sum(%q) = %d words; want %d", parts, n, whole)
		}
	})
}

// seen is a Counter that records the texts it counts.
type seen struct {
	tokens.Counter
	bytes int
	texts map[string]bool
}

func (s *seen) Count(text string) (int, bool) {
	s.bytes += len(text)
	s.texts[text] = true
	return s.Counter.Count(text)
}

func TestSumCountsBlocksAsTheyAre(t *testing.T) {
	c := &seen{Counter: encoding(t, "o200k_base"), texts: map[string]bool{}}
	block := "<source id=\"1\">\nEvery parent may take 16 weeks.\n</source>\n"
	tokens.Sum(c, "You are the HR assistant.", "\n\n", "<sources>\n", block, block, "</sources>\n")
	if !c.texts[block] {
		t.Errorf("block was not counted whole: %v", c.texts)
	}
}

func TestDeltaLooksAtTheEnd(t *testing.T) {
	for _, sentence := range []string{"The quick brown fox jumps. ", "敏捷的棕色狐狸，跳过了懒狗。"} {
		c := &seen{Counter: encoding(t, "o200k_base"), texts: map[string]bool{}}
		old := strings.Repeat(sentence, 100_000/len(sentence))
		if _, exact := tokens.Delta(c, old, "\n\n", "<sources>\n"); !exact || c.bytes > 200 {
			t.Errorf("Delta counted %d bytes, exact %v", c.bytes, exact)
		}
	}
}

func TestDeltaBehindALongRun(t *testing.T) {
	e := encoding(t, "o200k_base")
	f := func(old, added string) {
		t.Helper()
		n, exact := tokens.Delta(e, old, added)
		if want := truth("o200k_base", old+added) - truth("o200k_base", old); n != want || !exact {
			t.Errorf("Delta(%.20q…, %q) = %d, %v; want %d", old, added, n, exact, want)
		}
	}
	f(strings.Repeat("a", 2000), "\n\n<sources>\n")
	f(strings.Repeat("a", 2000), "a")
	f(strings.Repeat("a", 2000)+" end.", "\n\n<sources>\n")
	f(strings.Repeat("\n", 2000), "<sources>\n")
	f(strings.Repeat("=", 2000), "\n")
	f(strings.Repeat("end. ", 2000), "/* c */")
}

// seams is a Counter of bytes that records how often it counts each text.
type seams struct{ bytes int }

func (c *seams) Count(s string) (int, bool) {
	c.bytes += len(s)
	return len(s), true
}

// A text in many parts without seams is counted correctly, in time linear in its length; in
// quadratic time these would take an hour.
func TestSumOfManyParts(t *testing.T) {
	many := 300_000
	if testing.Short() {
		many = 20_000
	}
	for _, unit := range [][]string{{"x"}, {"x", "y "}, {"é", "中"}, {"'", "s"}, {"1", "x"}, {"\n"}, {" "}, {"x\n", "/"}, {"=", "=", "1"}} {
		parts := make([]string, 0, many)
		for i := range many {
			parts = append(parts, unit[i%len(unit)])
		}
		whole := strings.Join(parts, "")
		c := new(seams)
		if n, exact := tokens.Sum(c, parts...); n != len(whole) || !exact || c.bytes != len(whole) {
			t.Errorf("%q: %d bytes, %v, %d counted; want %d", unit, n, exact, c.bytes, len(whole))
		}
		e := encoding(t, "o200k_base")
		want, _ := e.Count(whole)
		if n, exact := tokens.Sum(e, parts...); n != want || !exact {
			t.Errorf("%q: %d tokens, %v; want %d", unit, n, exact, want)
		}
	}
}

// Known counts do not change any difference, whatever the parts are.
func TestGrowthIsTheDifference(t *testing.T) {
	check(t, func(t *rapid.T, name string) {
		e := encoding(t, name)
		old := text(8).Draw(t, "old")
		parts := rapid.SliceOfN(text(8), 0, 5).Draw(t, "parts")
		g := tokens.Growing(e, old)
		for _, part := range parts {
			known := 0
			if rapid.Bool().Draw(t, "known") {
				known, _ = e.Count(part)
			}
			g.Add(part, known)
		}
		n, exact := g.End()
		if want := truth(name, old+strings.Join(parts, "")) - truth(name, old); n != want || !exact {
			t.Fatalf("%q and %q: %d, %v; want %d", old, parts, n, exact, want)
		}
	})
}

// Of a text with a known count only the words at its ends are counted.
func TestGrowthCountsLittleOfWhatIsKnown(t *testing.T) {
	e := encoding(t, "o200k_base")
	for _, end := range []string{"\n", ".", ".\n\n"} { // with and without a following seam
		block := "[1] Leave policy\n" + strings.Repeat("Every parent may take ten weeks of leave. ", 20) + "Ask the office" + end
		n, _ := e.Count(block)
		counter := &asked{Counter: e}
		g := tokens.Growing(counter, "You are the HR assistant.")
		for _, part := range []string{"\n\n", block, block, block} {
			known := 0
			if part == block {
				known = n
			}
			g.Add(part, known)
		}
		grown, exact := g.End()
		if want, _ := tokens.Delta(e, "You are the HR assistant.", "\n\n", block, block, block); grown != want || !exact || counter.bytes > 200 {
			t.Errorf("%q: %d, %v, counted %d bytes; want %d", end, grown, exact, counter.bytes, want)
		}
	}
}
