package usage

import "bytes"

// key is what an answer is searched for. Two matches can overlap by one byte only: the
// last quote of one may be the first of the next.
const key = `"usage"`

// maxObject is the size of the largest object after the key that is read, in bytes.
// OpenAI's has 350.
const maxObject = 8 << 10

// A stage says what a scanner looks for next.
type stage int

const (
	seekKey   stage = iota
	seekColon       // after the key
	seekValue       // after the colon
	inObject
)

// A scanner finds the object after the last usage key. Its memory does not grow with the
// text, and it makes no difference where the pieces end.
type scanner struct {
	stage   stage
	matched int  // how many bytes of key stand at the end of the last piece
	escaped bool // a backslash stands before these, so they are part of a string
	before  byte // the last byte of the last piece

	depth    int // how many braces are open
	inString bool
	escape   bool   // the next byte is escaped
	object   []byte // the part of the current object that was read
	usage    []byte // the last whole object
}

func (s *scanner) write(piece []byte) {
	for i := 0; i < len(piece); {
		switch s.stage {
		case seekKey:
			i = s.key(piece, i)
		case seekColon:
			i = s.colon(piece, i)
		case seekValue:
			i = s.value(piece, i)
		case inObject:
			i = s.capture(piece, i)
		}
	}
	if len(piece) > 0 {
		s.before = piece[len(piece)-1]
	}
}

// key looks for the key in piece[i:] and returns the index to continue at.
func (s *scanner) key(piece []byte, i int) int {
	for ; s.matched > 0 && i < len(piece); i++ {
		switch {
		case piece[i] != key[s.matched]:
			if s.matched = 0; piece[i] == '"' {
				s.matched, s.escaped = 1, s.follows(piece, i)
			}
		case s.matched < len(key)-1:
			s.matched++
		case s.escaped:
			s.matched, s.escaped = 1, false // its last quote may begin the key
		default:
			s.matched, s.stage = 0, seekColon
			return i + 1
		}
	}
	return s.whole(piece, i)
}

// whole looks for a key that begins in piece at or after i. It searches for the key
// without its first quote: JSON is full of quotes, and each of them would begin a match,
// which takes nine times as long.
func (s *scanner) whole(piece []byte, i int) int {
	for i < len(piece) {
		at := bytes.Index(piece[i:], []byte(key[1:]))
		if at < 0 {
			s.keep(piece, i)
			return len(piece)
		}
		at += i
		if at > i && piece[at-1] == '"' && !s.follows(piece, at-1) {
			s.stage = seekColon
			return at + len(key) - 1
		}
		i = at + len(key) - 2 // its last quote may begin the key
	}
	return i
}

// follows reports whether the byte before piece[i] is a backslash. JSON has backslashes in
// strings only, so the byte after one is part of a string.
func (s *scanner) follows(piece []byte, i int) bool {
	if i > 0 {
		return piece[i-1] == '\\'
	}
	return s.before == '\\'
}

// keep notes how much of the key stands at the end of piece[from:].
func (s *scanner) keep(piece []byte, from int) {
	from = max(from, len(piece)-len(key)+1)
	at := bytes.LastIndexByte(piece[from:], '"')
	if at < 0 {
		return
	}
	at += from
	if tail := piece[at:]; string(tail) == key[:len(tail)] {
		s.matched, s.escaped = len(tail), s.follows(piece, at)
	}
}

func (s *scanner) colon(piece []byte, i int) int {
	switch c := piece[i]; {
	case space(c):
		return i + 1
	case c == ':':
		s.stage = seekValue
		return i + 1
	}
	s.stage = seekKey // "usage" was a string, not a key
	return i
}

// value begins to capture an object. Any other value is skipped: the null that OpenAI's
// streams have in every event, or something malformed.
func (s *scanner) value(piece []byte, i int) int {
	switch c := piece[i]; {
	case space(c):
		return i + 1
	case c == '{':
		s.stage, s.depth, s.inString, s.escape = inObject, 0, false, false
		s.object = s.object[:0]
		return i
	}
	s.stage = seekKey
	return i
}

// capture copies the part of the object that is in piece. An object that is too long is
// given up.
func (s *scanner) capture(piece []byte, i int) int {
	end, done := s.closing(piece, i)
	if len(s.object)+end-i > maxObject {
		// Continue at the first byte beyond the limit, so that the result does not
		// depend on where pieces end.
		s.stage = seekKey
		return i + maxObject - len(s.object)
	}
	s.object = append(s.object, piece[i:end]...)
	if done {
		s.stage = seekKey
		s.usage, s.object = s.object, s.usage[:0]
	}
	return end
}

// closing returns the index after the object's last brace and true, or the length of
// piece if that brace is not in it.
func (s *scanner) closing(piece []byte, i int) (end int, done bool) {
	for ; i < len(piece); i++ {
		c := piece[i]
		switch {
		case s.escape:
			s.escape = false
		case s.inString:
			s.escape = c == '\\'
			s.inString = c != '"'
		case c == '"':
			s.inString = true
		case c == '{':
			s.depth++
		case c == '}':
			if s.depth--; s.depth == 0 {
				return i + 1, true
			}
		}
	}
	return i, false
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
