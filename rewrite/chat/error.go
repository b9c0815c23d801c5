package chat

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// maxDepth is the deepest nesting of a body that is rewritten.
const maxDepth = 64

// An Error says why a body is not rewritten.
type Error struct {
	Reason  Reason // NotJSON, NotChat, Ambiguous or TooDeep
	Param   string // the field, "messages[2].content"; "" for the whole body
	Message string // for people, naming the value
}

func (e *Error) Error() string { return e.Message }

// Reason is a word of a closed list, for metrics.
type Reason string

// The reasons why a body is not rewritten.
const (
	NotJSON   Reason = "not-json"
	NotChat   Reason = "not-chat"       // JSON, but no chat request: no messages, wrong types
	Ambiguous Reason = "ambiguous-body" // two parsers could read it differently
	TooDeep   Reason = "too-deep"       // nested deeper than maxDepth
)

// Ambiguity returns what two parsers could read differently in the i-th message, nil if
// nothing.
func (r *Request) Ambiguity(i int) *Error {
	m := &r.kept[i]
	if !m.ambiguous && r.validUTF8(m) {
		return nil
	}
	n := sort.Search(len(r.Messages), func(n int) bool { return r.Messages[n].End >= m.content.End })
	p := Parser{scanner: scanner{b: r.Body[:r.Messages[n].End], i: r.Messages[n].Start, loneSurrogate: -1}, describe: true}
	p.message(n)
	err := p.keys.err
	if err == nil {
		err = &Error{Reason: Ambiguous, Param: "messages[].content", Message: "text is not valid UTF-8"}
	}
	err.Param = strings.Replace(err.Param, "messages[]", path{n, -1, ""}.String(), 1)
	return err
}

// OperatorAmbiguity returns what two parsers could read differently in the first system
// or developer message, or with all in any of them, nil if nothing.
func (r *Request) OperatorAmbiguity(all bool) *Error {
	for i := range r.kept {
		if !r.kept[i].operator() {
			continue
		}
		if err := r.Ambiguity(i); err != nil || !all {
			return err
		}
	}
	return nil
}

// validUTF8 tells whether a message's text is valid UTF-8.
func (r *Request) validUTF8(m *message) bool {
	if r.seen&markWide == 0 {
		return true
	}
	for text := range r.texts(m) {
		if !utf8.Valid(text.Of(r.Body)) {
			return false
		}
	}
	return true
}

// Sound tells whether all parsers read the same texts in the body.
func (r *Request) Sound() bool {
	return !r.ambiguous && (r.seen&markWide == 0 || utf8.Valid(r.Body))
}
