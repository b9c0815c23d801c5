package tokens

import (
	"math"
	"unicode/utf8"
)

// Append appends the ids of text's tokens to ids. Special tokens are read as plain text, and each
// invalid byte as U+FFFD.
func (e *Encoding) Append(ids []int, text string) []int {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	c := e.coder()
	defer e.coders.Put(c)
	c.ids, c.keep = ids, true
	e.code(c, text, math.MaxInt)
	ids, c.ids = c.ids, nil
	return ids
}

// Token returns the bytes of the token id, "" if there is none.
func (e *Encoding) Token(id int) string {
	if id < 0 || id >= len(e.vocabulary.offsets)-1 {
		return ""
	}
	return string(e.vocabulary.bytes(uint32(id)))
}
