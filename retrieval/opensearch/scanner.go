package opensearch

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// A scanner reads JSON once from beginning to end. An answer to a search has a megabyte, most of it in
// long strings, which it finds the ends of without looking at each byte. What is skipped is not
// checked, except that its brackets match.
type scanner struct {
	text string
	at   int
	bad  bool // not JSON, or not of the expected kind
}

// fail stops all reading.
func (s *scanner) fail() { s.bad, s.at = true, len(s.text) }

// peek returns the next byte that is no space, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		if c := s.text[s.at]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
	}
	return 0
}

// next consumes c if it is the next byte.
func (s *scanner) next(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// fields yields the keys of an object. A value that the loop does not read is skipped. null is an object
// without fields.
func (s *scanner) fields(yield func(key string) bool) {
	s.members('{', '}', func() bool {
		key := s.str()
		if !s.next(':') {
			s.fail()
			return false
		}
		return yield(key)
	})
}

// elements yields for each element of a list.
func (s *scanner) elements(yield func(struct{}) bool) {
	s.members('[', ']', func() bool { return yield(struct{}{}) })
}

func (s *scanner) members(open, end byte, yield func() bool) {
	if s.peek() == 'n' {
		s.skip()
		return
	}
	if !s.next(open) {
		s.fail()
		return
	}
	if s.next(end) {
		return
	}
	for !s.bad {
		before := s.at
		if !yield() {
			s.fail() // a loop over them does not end early
			return
		}
		if c := s.peek(); open == '{' && c != ',' && c != end || s.at == before {
			s.skip()
		}
		if s.next(',') {
			continue
		}
		if !s.next(end) {
			s.fail()
		}
		return
	}
}

// raw returns a string with its quotes.
func (s *scanner) raw() string {
	if s.peek() != '"' {
		s.fail()
		return `""`
	}
	start := s.at
	for at := start + 1; ; {
		i := strings.IndexByte(s.text[at:], '"')
		if i < 0 {
			s.fail()
			return `""`
		}
		at += i + 1
		slashes := 0
		for s.text[at-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			s.at = at
			return s.text[start:at]
		}
	}
}

// str reads a string; null is "".
func (s *scanner) str() string {
	if s.peek() == 'n' {
		s.skip()
		return ""
	}
	raw := s.raw()
	if strings.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	return gjson.Parse(raw).Str
}

// number reads a number; null is 0.
func (s *scanner) number() float64 {
	raw := s.skip()
	if raw == "null" {
		return 0
	}
	n, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		s.fail()
	}
	return n
}

// skip skips a value and returns it.
func (s *scanner) skip() string {
	switch s.peek() {
	case '"':
		return s.raw()
	case '{', '[':
		return s.skipNested()
	}
	start := s.at
	for s.at < len(s.text) && strings.IndexByte(",]} \n\r\t", s.text[s.at]) < 0 {
		s.at++
	}
	if s.at == start {
		s.fail()
		return ""
	}
	return s.text[start:s.at]
}

func (s *scanner) skipNested() string {
	start, depth := s.at, 0
	for !s.bad && s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.raw()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.at++
		if depth == 0 {
			return s.text[start:s.at]
		}
	}
	s.fail()
	return ""
}
