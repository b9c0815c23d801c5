package answer

import (
	"strings"

	"sidenote/retrieval/services"
)

// thoughts follows what a model thinks between tags before it answers. Markers there cite nothing.
type thoughts struct {
	head    []byte // the beginning of the text, behind white space
	end     string // the tag that ends the thoughts; "" outside them
	matched int    // bytes of end
	over    bool   // the answer has begun
}

// A thought says what a byte is.
type thought int

const (
	answers  thought = iota // it is of the answer
	begins                  // it ends the opening tag
	thinking                // it is of the thoughts
)

// read reads the next byte of a text.
func (t *thoughts) read(b byte) thought {
	switch {
	case t.over:
		return answers
	case t.end != "":
		switch {
		case b == t.end[t.matched]:
			t.matched++
		case b == t.end[0]:
			t.matched = 1
		default:
			t.matched = 0
		}
		if t.matched == len(t.end) {
			t.end, t.head, t.matched = "", nil, 0
		}
		return thinking
	case len(t.head) == 0 && (b == ' ' || b == '\n' || b == '\r' || b == '\t'):
		return answers
	}
	t.head, t.over = append(t.head, b), true
	for _, tags := range services.ThinkingTags() {
		switch {
		case string(t.head) == tags[0]:
			t.end, t.over = tags[1], false
			return begins
		case strings.HasPrefix(tags[0], string(t.head)):
			t.over = false
		}
	}
	return answers
}
