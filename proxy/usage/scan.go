package usage

import "bytes"

// key is what an answer is searched for. Its only border is its quote: the last
// byte of one match can be the first of the next, no other can.
const key = `"usage"`

// maxObject bounds the object behind the key, in bytes. OpenAI's has 350.
const maxObject = 8 << 10

// A stage says what a scanner waits for.
type stage int

const (
	seekKey   stage = iota
	seekColon       // after the key
	seekValue       // after the colon
	inObject
)

// A scanner finds the object behind the last usage key. What it holds does not
// grow with the text, and where the pieces end makes no difference to it.
type scanner struct {
	stage   stage
	matched int  // bytes of key at the end of the piece before
	escaped bool // these follow a backslash, so they are text
	before  byte // the last byte of the piece before

	depth    int // of braces
	inString bool
	escape   bool   // the next byte is escaped
	object   []byte // what there is of the current object
	usage    []byte // the last whole one
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

// key looks for the key from i on and returns where to go on.
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
			s.matched, s.escaped = 1, false // its last quote may be a first one
		default:
			s.matched, s.stage = 0, seekColon
			return i + 1
		}
	}
	return s.whole(piece, i)
}

// whole looks for a key that begins in piece at or after i. It asks for the key
// without its first quote: JSON is full of quotes, and each would be a false
// start, which costs nine times the time.
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
		i = at + len(key) - 2 // its last quote may be a first one
	}
	return i
}

// follows reports whether the byte before piece[i] is a backslash. JSON has
// backslashes in strings only, so what comes after one is text.
func (s *scanner) follows(piece []byte, i int) bool {
	if i > 0 {
		return piece[i-1] == '\\'
	}
	return s.before == '\\'
}

// keep notes how much of the key stands at the end of piece, no earlier than
// at from.
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
	s.stage = seekKey // it was a string, not a key
	return i
}

// value begins to capture an object. What else stands there is of no use: the
// null that OpenAI's streams carry in every event, or nonsense.
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

// capture copies the object's part in piece. One that is too long is given up.
func (s *scanner) capture(piece []byte, i int) int {
	end, done := s.closing(piece, i)
	if len(s.object)+end-i > maxObject {
		// From the first byte that was too many, wherever pieces end.
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

// closing returns the end of the object, or of piece.
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
