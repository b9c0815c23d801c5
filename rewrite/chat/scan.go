package chat

import "fmt"

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
		s.fail(NotJSON, "body is not JSON: it ends where %s should stand", want)
		return
	}
	s.fail(NotJSON, "body is not JSON: %q at byte %d where %s should stand", s.b[s.i], s.i, want)
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
