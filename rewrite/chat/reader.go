package chat

import "strings"

// A Reader reads JSON values one after another. What is no value of the type that is asked
// for is skipped. After the first byte that is no JSON nothing more is read; End tells it.
type Reader struct{ scanner }

// NewReader returns a Reader of raw.
func NewReader(raw []byte) Reader { return Reader{scanner{b: raw, loneSurrogate: -1}} }

// Kind returns the type of the next value.
func (r *Reader) Kind() Kind { return r.kind() }

// Offset returns where the next value, or whatever follows, begins in the JSON that is read.
func (r *Reader) Offset() int {
	r.peek()
	return r.i
}

// Value skips the next value and returns its JSON.
func (r *Reader) Value() []byte { return r.value().Of(r.b) }

// Span skips the next value and returns where it stands.
func (r *Reader) Span() Span { return r.value() }

// Text returns the next value if it is a string, else "".
func (r *Reader) Text() string {
	k, v := r.Kind(), r.Value()
	if k != KindString || r.err != nil {
		return ""
	}
	return Unquote(v)
}

// Array calls element for each element of the next value, to read it.
func (r *Reader) Array(element func(n int)) {
	if r.Kind() != KindArray {
		r.value()
		return
	}
	r.array(element)
}

// Object calls member for each member of the next value, to read its value.
func (r *Reader) Object(member func(name string)) {
	if r.Kind() != KindObject {
		r.value()
		return
	}
	r.object(func(key Span, _ bool) { member(nameOf(key.Of(r.b))) })
}

// nameOf is Unquote for the name of a member. A usual one takes no memory.
func nameOf(raw []byte) string {
	raw = raw[1 : len(raw)-1]
	if name, ok := usual[string(raw)]; ok {
		return name
	}
	return decode(raw)
}

// usual has the names of members that chats and answers have most. It is never changed.
var usual = func() map[string]string {
	names := map[string]string{}
	for name := range strings.FieldsSeq(`model messages stream temperature max_tokens role content id object created choices usage index
		message delta finish_reason logprobs refusal annotations text type name tool_calls function arguments service_tier system_fingerprint
		prompt_tokens completion_tokens total_tokens prompt_tokens_details completion_tokens_details cached_tokens audio_tokens
		reasoning_tokens accepted_prediction_tokens rejected_prediction_tokens`) {
		names[name] = name
	}
	return names
}()

// Members is Object with the names as they stand between their quotes, without a copy.
func (r *Reader) Members(member func(name []byte)) {
	if r.Kind() != KindObject {
		r.value()
		return
	}
	r.object(func(key Span, _ bool) { member(r.b[key.Start+1 : key.End-1]) })
}

// Next returns the offset in raw at which the next value begins.
func (r *Reader) Next() int {
	r.peek()
	return r.i
}

// Pos returns the offset in raw behind the value that was read last.
func (r *Reader) Pos() int { return r.i }

// TooDeep tells whether something that was read nests deeper than a body may.
func (r *Reader) TooDeep() bool { return r.tooDeep }

// LoneSurrogate tells whether a string that was read has an escaped half of a surrogate pair
// without the other half.
func (r *Reader) LoneSurrogate() bool { return r.loneSurrogate >= 0 }

// End returns what is wrong with the JSON that was read: it is none, or something follows it.
func (r *Reader) End() *Error {
	if r.peek() != 0 || r.i < len(r.b) {
		r.expected("the end")
	}
	return r.err
}

// Stop ends the reading: nothing more is called or returned.
func (r *Reader) Stop() { r.err = &Error{} }
