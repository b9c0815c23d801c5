package chat

import "strings"

// A Reader reads JSON values one after another. A value of another type than the one requested is
// skipped. Reading stops at the first invalid byte, which End reports.
type Reader struct{ scanner }

// NewReader returns a Reader for raw.
func NewReader(raw []byte) Reader { return Reader{scanner{b: raw, loneSurrogate: -1}} }

// Kind returns the type of the next value.
func (r *Reader) Kind() Kind { return r.kind() }

// Offset returns the offset of the next value, or of whatever follows.
func (r *Reader) Offset() int {
	r.peek()
	return r.i
}

// Value skips the next value and returns its JSON.
func (r *Reader) Value() []byte { return r.value().Of(r.b) }

// Span skips the next value and returns its span.
func (r *Reader) Span() Span { return r.value() }

// Text returns the next value if it is a string; otherwise it skips the value and returns "".
func (r *Reader) Text() string {
	k, v := r.Kind(), r.Value()
	if k != KindString || r.err != nil {
		return ""
	}
	return Unquote(v)
}

// Array calls element, which must read the element, for each element of the next value.
func (r *Reader) Array(element func(n int)) {
	if r.Kind() != KindArray {
		r.value()
		return
	}
	r.array(element)
}

// Object calls member, which must read the value, for each member of the next value.
func (r *Reader) Object(member func(name string)) {
	if r.Kind() != KindObject {
		r.value()
		return
	}
	r.object(func(key Span, _ bool) { member(nameOf(key.Of(r.b))) })
}

// nameOf is Unquote for member names. It does not allocate for those in usual.
func nameOf(raw []byte) string {
	raw = raw[1 : len(raw)-1]
	if name, ok := usual[string(raw)]; ok {
		return name
	}
	return decode(raw)
}

// usual holds the member names most frequent in requests and answers. It must not be changed.
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

// Members is like Object but passes the names as written between their quotes, without copying.
func (r *Reader) Members(member func(name []byte)) {
	if r.Kind() != KindObject {
		r.value()
		return
	}
	r.object(func(key Span, _ bool) { member(r.b[key.Start+1 : key.End-1]) })
}

// Next returns the offset at which the next value begins.
func (r *Reader) Next() int {
	r.peek()
	return r.i
}

// Pos returns the offset after the value that was read last.
func (r *Reader) Pos() int { return r.i }

// TooDeep reports whether a value that was read is nested deeper than allowed in a body.
func (r *Reader) TooDeep() bool { return r.tooDeep }

// LoneSurrogate reports whether a string that was read has an escaped lone surrogate.
func (r *Reader) LoneSurrogate() bool { return r.loneSurrogate >= 0 }

// End returns an error if the JSON was invalid or something follows it.
func (r *Reader) End() *Error {
	if r.peek() != 0 || r.i < len(r.b) {
		r.expected("the end")
	}
	return r.err
}

// Stop stops reading: callbacks are no longer called and values are empty.
func (r *Reader) Stop() { r.err = &Error{} }
