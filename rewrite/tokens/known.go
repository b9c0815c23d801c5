package tokens

import "strings"

// A Counted is a text, and what an Encoding counts of it.
type Counted struct {
	Text   string
	Tokens int
}

// Knowing returns a Counter that counts as c does, which is an Encoding, and knows
// what some texts count. Sum and Delta mostly ask for such a text without its last
// word, without its first line, or with a little more: only the rest is counted then.
func Knowing(c Counter, texts ...Counted) Counter {
	if len(texts) == 0 {
		return c
	}
	k := &knowing{Counter: c, texts: make([]known, len(texts))}
	for i, t := range texts {
		k.texts[i] = known{t, firstSeam(t.Text), lastCut(t.Text)}
	}
	return k
}

type knowing struct {
	Counter
	texts []known
}

// A known is a text whose count is known.
type known struct {
	Counted
	first int // offset of its first seam
	last  int // of the last place where it may be cut
}

// lastCut returns the offset of the last cut of any kind in text, 0 if there is none.
func lastCut(text string) int {
	for i := len(text); i > 0; {
		_, size := last(text[:i])
		i -= size
		if apart(text[:i], text[i:]) {
			return i
		}
	}
	return 0
}

// Count counts text.
func (k *knowing) Count(text string) (n int, exact bool) {
	for i := range k.texts {
		t := &k.texts[i]
		for _, from := range [...]int{0, t.first} {
			if n, ok := k.from(t, from, text); ok {
				return n, true
			}
		}
	}
	return k.Counter.Count(text)
}

// from counts a text that is most of what a known one is from an offset on, or all of
// that with less behind it.
func (k *knowing) from(t *known, from int, text string) (n int, ok bool) {
	rest := t.Text[from:]
	switch {
	case 2*len(text) >= len(rest) && strings.HasPrefix(rest, text):
		return k.part(t, from, from+len(text))
	case len(text) <= 2*len(rest) && t.last > from && strings.HasPrefix(text, rest):
		n, ok = k.part(t, from, t.last)
		more, exact := k.Counter.Count(text[t.last-from:])
		return n + more, ok && exact
	}
	return 0, false
}

// part returns what a part of a known text counts, if it begins and ends where the
// text may be cut.
func (k *knowing) part(t *known, from, to int) (n int, ok bool) {
	before, text, after := t.Text[:from], t.Text[from:to], t.Text[to:]
	if after != "" && !apart(text, after) || before != "" && !apart(before, text) {
		return 0, false
	}
	n = t.Tokens
	for _, rest := range [...]string{before, after} {
		if rest == "" {
			continue
		}
		less, exact := k.Counter.Count(rest)
		if !exact {
			return 0, false
		}
		n -= less
	}
	return n, n > 0
}
