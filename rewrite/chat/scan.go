package chat

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
)

// This file holds, in order: Span, the scanner that checks and walks JSON, strings, Reader for
// fields of a request, and keySet, which finds repeated keys.

// A Span is a half-open range of bytes of the body.
type Span struct{ Start, End int }

// Of returns the bytes of b within the span.
func (s Span) Of(b []byte) []byte { return b[s.Start:s.End] }

// A scanner reads JSON text (RFC 8259) once. It checks everything and decodes nothing. After the
// first error every method returns at once.
type scanner struct {
	b     []byte
	i     int
	depth int
	err   *Error

	loneSurrogate int   // offset of the last escaped lone surrogate, -1 if none
	seen          marks // in all strings; non-ASCII bytes elsewhere are errors
	tooDeep       bool  // something is nested deeper than maxDepth
}

func (s *scanner) fail(r Reason, format string, args ...any) {
	if s.err == nil {
		s.err = &Error{Reason: r, Message: fmt.Sprintf(format, args...)}
	}
}

func (s *scanner) expected(want string) {
	if s.i >= len(s.b) {
		s.fail(NotJSON, "body is not JSON: it ends where %s is expected", want)
		return
	}
	s.fail(NotJSON, "body is not JSON: %q at byte %d where %s is expected", s.b[s.i], s.i, want)
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// take skips white space and consumes c.
func (s *scanner) take(c byte, want string) bool {
	if s.err == nil && s.peek() == c && s.i < len(s.b) {
		s.i++
		return true
	}
	s.expected(want)
	return false
}

// enter consumes an opening bracket and increases the depth.
func (s *scanner) enter(open byte, want string) bool {
	if !s.take(open, want) {
		return false
	}
	s.depth++
	return true
}

// next consumes a comma, if one follows, and reports whether there was one.
func (s *scanner) next() bool {
	if s.err != nil || s.peek() != ',' {
		return false
	}
	s.i++
	s.peek()
	return true
}

// leave consumes the closing bracket of the value that began at start, and returns its span.
func (s *scanner) leave(start int, end byte, want string) Span {
	if !s.take(end, want) {
		return Span{}
	}
	s.depth--
	return Span{start, s.i}
}

// object calls member for each member, at the first byte of its value, and returns the object's
// span.
func (s *scanner) object(member func(key Span, escaped bool)) Span {
	start := s.i
	if !s.enter('{', "an object") {
		return Span{}
	}
	for more := s.peek() != '}'; more; more = s.next() {
		key, escaped := s.str()
		if s.take(':', "':'") {
			s.peek()
			member(key, escaped)
		}
	}
	return s.leave(start, '}', "',' or '}'")
}

// array calls element for each element, at its first byte, and returns the array's span.
func (s *scanner) array(element func(n int)) Span {
	start := s.i
	if !s.enter('[', "an array") {
		return Span{}
	}
	n := 0
	for more := s.peek() != ']'; more; more = s.next() {
		element(n)
		n++
	}
	return s.leave(start, ']', "',' or ']'")
}

// Kind is the type of a JSON value.
type Kind byte

// The kinds.
const (
	KindMissing Kind = iota
	KindNull
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

func (k Kind) String() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// kind returns the type of the next value according to its first byte. The value itself is
// checked when it is read.
func (s *scanner) kind() Kind {
	switch c := s.peek(); c {
	case '{':
		return KindObject
	case '[':
		return KindArray
	case '"':
		return KindString
	case 't', 'f':
		return KindBool
	case 'n':
		return KindNull
	default:
		return KindNumber
	}
}

// value skips one value of any type and returns its span.
func (s *scanner) value() Span {
	if s.err != nil {
		return Span{}
	}
	k := s.kind()
	start := s.i
	switch {
	case k == KindString:
		v, _ := s.str()
		return v
	case k != KindObject && k != KindArray:
		s.scalar(k)
	case s.depth >= maxDepth:
		s.deep()
	case k == KindObject:
		return s.object(func(Span, bool) { s.value() })
	default:
		return s.array(func(int) { s.value() })
	}
	return Span{start, s.i}
}

// scalar skips a null, a boolean, a number or a string.
func (s *scanner) scalar(k Kind) {
	switch k {
	case KindString:
		s.str()
	case KindNull:
		s.word("null")
	case KindBool:
		if s.b[s.i] == 't' {
			s.word("true")
		} else {
			s.word("false")
		}
	default:
		s.number()
	}
}

// deep skips an object or an array below maxDepth. It does not recurse, so that the depth of a
// hostile body does not cost stack.
func (s *scanner) deep() {
	s.tooDeep = true
	var ends []byte // the closing brackets still expected
	for s.err == nil {
		if k := s.kind(); k == KindObject || k == KindArray {
			end := s.b[s.i] + 2 // in ASCII, both closing brackets are two above the opening ones
			ends = append(ends, end)
			if s.i++; s.peek() != end {
				s.name(end)
				continue
			}
		} else if s.scalar(k); s.err != nil {
			return
		}
		for len(ends) > 0 && s.peek() == ends[len(ends)-1] {
			s.i++
			ends = ends[:len(ends)-1]
		}
		if len(ends) == 0 || !s.take(',', "',' or a closing bracket") {
			return
		}
		s.name(ends[len(ends)-1])
	}
}

// name skips a member's name and colon if the innermost bracket is an object's.
func (s *scanner) name(end byte) {
	if end != '}' {
		return
	}
	s.peek()
	s.str()
	s.take(':', "':'")
}

func (s *scanner) word(w string) {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		s.expected("a value")
		return
	}
	s.i += len(w)
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	return s.i > start
}

func (s *scanner) number() {
	const want = "a value"
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		s.expected(want)
		return
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			s.expected("a digit")
			return
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !s.digits() {
			s.expected("a digit")
		}
	}
}

// str reads a string and returns its span, quotes included. escaped reports whether it contains a
// backslash.
func (s *scanner) str() (v Span, escaped bool) {
	if s.err != nil {
		return Span{}, false
	}
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		s.expected("a string")
		return Span{}, false
	}
	start := s.i
	s.i++
	for {
		var seen marks
		s.i, seen = inside(s.b, s.i)
		s.seen |= seen
		escaped = escaped || seen&(markEscape|markCode) != 0
		if s.i >= len(s.b) {
			s.expected("the end of a string")
			return Span{}, false
		}
		switch s.b[s.i] {
		case '"':
			s.i++
			return Span{start, s.i}, escaped
		case '\\':
			escaped = true
			if s.escape(); s.err != nil {
				return Span{}, false
			}
		default:
			s.fail(NotJSON, "body is not JSON: control character %#02x in a string at byte %d", s.b[s.i], s.i)
			return Span{}, false
		}
	}
}

// unescapedLen returns the number of bytes of s before the first quote, backslash or control
// character. The compiler turns the eight bytes into one load.
func unescapedLen[text []byte | string](s text) int {
	i := 0
	for ; len(s)-i >= 8; i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if hit := special(w); hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

// The lowest and the top bit of each byte of a word.
const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// special sets the top bits of the bytes of w that are a quote, a backslash or a control
// character. Above the first of them it may also set bits of other bytes. A byte x is below n if
// x - n borrows into its top bit and x had no top bit (Warren, Hacker's Delight, §6-1). With its
// second bit flipped, a quote comes right above the control characters and nothing else does, so
// one subtraction finds both.
func special(w uint64) uint64 {
	low, slash := w^(ones*0x02), w^(ones*'\\')
	return ((low - ones*('"'^0x02+1)) | (slash - ones)) & tops &^ w
}

// shortEscapes holds the bytes that follow a backslash in an escape of two bytes.
var shortEscapes = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// escape reads one escape sequence, or two that form a surrogate pair.
func (s *scanner) escape() {
	at := s.i
	r, ok := s.escapedRune()
	if !ok {
		return
	}
	if r < 0xD800 || r > 0xDFFF {
		return
	}
	if r < 0xDC00 && s.i+1 < len(s.b) && s.b[s.i] == '\\' && s.b[s.i+1] == 'u' {
		second := s.i
		low, ok := s.escapedRune()
		if !ok {
			return
		}
		if low >= 0xDC00 && low <= 0xDFFF {
			return
		}
		s.i = second // not the other half: read it again as a character of its own
	}
	s.loneSurrogate = at
}

// escapedRune reads one escape sequence and returns its rune, which may be half of a surrogate
// pair.
func (s *scanner) escapedRune() (r rune, ok bool) {
	const want = "an escape sequence"
	if s.i++; s.i >= len(s.b) {
		s.expected(want)
		return 0, false
	}
	c := s.b[s.i]
	if shortEscapes[c] {
		s.i++
		return rune(c), true
	}
	if c == 'u' && len(s.b)-s.i >= 5 {
		s.seen |= markCode
		if r, ok := hex4(s.b[s.i+1 : s.i+5]); ok {
			s.i += 5
			return r, true
		}
	}
	s.expected(want)
	return 0, false
}

// hexDigits holds the value of each hexadecimal digit, and 0xff for every other byte.
var hexDigits = func() (t [256]uint8) {
	for b := range t {
		t[b] = 0xff
	}
	for _, digits := range [...]string{"0123456789abcdef", "0123456789ABCDEF"} {
		for v, b := range []byte(digits) {
			t[b] = uint8(v)
		}
	}
	return t
}()

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (rune, bool) {
	_ = b[3]
	a, c, d, e := hexDigits[b[0]], hexDigits[b[1]], hexDigits[b[2]], hexDigits[b[3]]
	if a|c|d|e > 0xf {
		return 0, false
	}
	return rune(a)<<12 | rune(c)<<8 | rune(d)<<4 | rune(e), true
}

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

// keySet finds duplicate keys in nested objects. It keeps one stack of keys; each open object
// knows where its own begin. Keys of a small object are compared with each other, those of a
// large one are put into a map, so that a hostile body takes linear time.
type keySet struct {
	stack [][]byte
	first [16][]byte              // initial memory of stack, enough for most requests
	index map[int]map[string]bool // keys of large objects, by where their level begins

	ambiguous bool   // an ambiguity was found since this was reset
	quiet     bool   // only note ambiguities without describing them, since this part may not matter
	err       *Error // the first ambiguity described
}

const smallObject = 24

// level opens an object and returns the index of its first key on the stack.
func (k *keySet) level() int { return len(k.stack) }

// leave closes the object that level opened.
func (k *keySet) leave(level int) {
	k.stack = k.stack[:level]
	delete(k.index, level)
}

// add records a key of the object opened by level; at is the object's path.
func (k *keySet) add(level int, at string, key []byte) {
	if k.err != nil || k.quiet && k.ambiguous {
		return // the result is known already
	}
	seen := k.stack[level:]
	if len(seen) < smallObject {
		for _, s := range seen {
			if bytes.Equal(s, key) && k.note() {
				k.describe(at, key, "key %q is repeated in one object", key)
			}
		}
		if k.stack == nil {
			k.stack = k.first[:0]
		}
		k.stack = append(k.stack, key)
		return
	}
	names := k.index[level]
	if names == nil {
		names = make(map[string]bool, 2*smallObject)
		for _, s := range seen {
			names[string(s)] = true
		}
		if k.index == nil {
			k.index = map[int]map[string]bool{}
		}
		k.index[level] = names
	}
	if names[string(key)] && k.note() {
		k.describe(at, key, "key %q is repeated in one object", key)
	}
	names[string(key)] = true
}

// note records that two parsers could read the body differently. It returns true if the caller
// should describe it, which holds only for the first ambiguity: a hostile body has one in every
// third byte, and a description takes memory.
func (k *keySet) note() bool {
	k.ambiguous = true
	return k.err == nil && !k.quiet
}

func (k *keySet) describe(at string, key []byte, format string, args ...any) {
	k.err = &Error{Reason: Ambiguous, Param: at + string(key), Message: fmt.Sprintf(format, args...)}
}
