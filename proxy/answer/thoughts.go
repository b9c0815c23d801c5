package answer

import (
	"strings"

	"sidenote/retrieval/services"
)

// reasoningTags recognizes reasoning between tags at the start of an answer. Markers in it are not
// citations.
type reasoningTags struct {
	head    []byte // the start of the text, without leading white space
	end     string // the closing tag; "" outside of reasoning
	matched int    // matched bytes of end
	over    bool   // the answer has begun
}

// A thought is the class of a byte.
type thought int

const (
	answers  thought = iota // part of the answer
	begins                  // last byte of the opening tag
	thinking                // part of the reasoning
)

// read classifies the next byte of a text.
func (t *reasoningTags) read(b byte) thought {
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
