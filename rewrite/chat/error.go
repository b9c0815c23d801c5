package chat

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// maxDepth is the deepest nesting allowed in a body that is rewritten.
const maxDepth = 64

// An Error says why a body is not rewritten.
type Error struct {
	Reason  Reason // NotJSON, NotChat, Ambiguous or TooDeep
	Param   string // the field, such as "messages[2].content"; "" for the whole body
	Message string // human-readable, with the value
}

func (e *Error) Error() string { return e.Message }

// Reason is one of a closed list of words, used as a metric label.
type Reason string

// The reasons why a body is not rewritten.
const (
	NotJSON   Reason = "not-json"
	NotChat   Reason = "not-chat"       // JSON, but not a chat request: no messages, or wrong types
	Ambiguous Reason = "ambiguous-body" // two parsers could read it differently
	TooDeep   Reason = "too-deep"       // nested deeper than maxDepth
)

// A Validity reports whether the texts of the n-th of Messages are valid UTF-8. read checks that;
// a Validity may cache the result for messages of the same bytes.
type Validity func(n int, read func() bool) bool

// Ambiguity returns what two parsers could read differently in the i-th message, nil if nothing.
// valid may be nil.
func (r *Request) Ambiguity(i int, valid Validity) *Error {
	m := &r.kept[i]
	n := sort.Search(len(r.Messages), func(n int) bool { return r.Messages[n].End >= m.content.End })
	if !m.ambiguous && r.validUTF8(n, m, valid) {
		return nil
	}
	p := Parser{scanner: scanner{b: r.Body[:r.Messages[n].End], i: r.Messages[n].Start, loneSurrogate: -1}, describe: true}
	p.message(n)
	err := p.keys.err
	if err == nil {
		err = &Error{Reason: Ambiguous, Param: "messages[].content", Message: "text is not valid UTF-8"}
	}
	err.Param = strings.Replace(err.Param, "messages[]", path{n, -1, ""}.String(), 1)
	return err
}

// OperatorAmbiguity returns what two parsers could read differently in the first system or
// developer message or, with all, in any of them; nil if nothing.
func (r *Request) OperatorAmbiguity(all bool, valid Validity) *Error {
	for i := range r.kept {
		if !r.kept[i].operator() {
			continue
		}
		if err := r.Ambiguity(i, valid); err != nil || !all {
			return err
		}
	}
	return nil
}

// validUTF8 reports whether the text of m, the n-th of Messages, is valid UTF-8.
func (r *Request) validUTF8(n int, m *message, valid Validity) bool {
	if r.seen&markWide == 0 {
		return true
	}
	read := func() bool {
		for text := range r.texts(m) {
			if !utf8.Valid(text.Of(r.Body)) {
				return false
			}
		}
		return true
	}
	if valid == nil {
		return read()
	}
	return valid(n, read)
}

// ValidOutsideMessages reports whether all parsers read the body outside of Messages alike. It
// assumes that each of the Messages is valid UTF-8 and does not check them.
func (r *Request) ValidOutsideMessages() bool {
	if r.ambiguous || r.seen&markWide == 0 {
		return !r.ambiguous
	}
	at := 0
	for _, m := range r.Messages { // each begins and ends with a brace, so no character is split
		if !utf8.Valid(r.Body[at:m.Start]) {
			return false
		}
		at = m.End
	}
	return utf8.Valid(r.Body[at:])
}
