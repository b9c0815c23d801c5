package rewrite

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// ambiguity checks the messages that this rewrite searches or extends and returns what
// two parsers could read differently in them, nil if nothing. asked says that the
// request brought its own query, so that the last user message is not searched.
func (j *job) ambiguity(asked bool) *BodyError {
	r, p := j.req, &j.policy
	if len(p.Knowledge) == 0 && len(p.Components) == 0 {
		return nil // no message is searched or extended
	}
	if j.last >= 0 && (!asked || j.placement == PlaceLastUser || j.placement == PlaceSplit) {
		if err := r.ambiguity(j.last); err != nil {
			return err
		}
	}
	for i := range r.messages {
		if !r.messages[i].role.operator() || j.placement == PlaceLastUser && p.Placement != PlaceMarker {
			continue
		}
		if err := r.ambiguity(i); err != nil || p.Placement != PlaceMarker { // only PlaceMarker searches all of them
			return err
		}
	}
	return nil
}

// ambiguity returns what two parsers could read differently in the i-th message, nil if
// nothing.
func (r *Request) ambiguity(i int) *BodyError {
	m := &r.messages[i]
	if !m.ambiguous && r.validUTF8(m) {
		return nil
	}
	n := sort.Search(len(r.spans), func(n int) bool { return r.spans[n].end >= m.content.end })
	p := Parser{scanner: scanner{b: r.Body[:r.spans[n].end], i: r.spans[n].start, loneSurrogate: -1}, describe: true}
	p.message(n)
	err := p.keys.err
	if err == nil {
		err = &BodyError{Reason: ReasonAmbiguous, Param: "messages[].content", Message: "text is not valid UTF-8"}
	}
	err.Param = strings.Replace(err.Param, "messages[]", path{n, -1, ""}.String(), 1)
	return err
}

// validUTF8 tells whether a message's text is valid UTF-8.
func (r *Request) validUTF8(m *message) bool {
	if r.seen&markWide == 0 {
		return true
	}
	for text := range r.texts(m) {
		if !utf8.Valid(text.of(r.Body)) {
			return false
		}
	}
	return true
}
