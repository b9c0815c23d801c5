package chunks

import "sidenote/rewrite/tags"

// A Renderer says how some chunks look. Its methods may be called at once by several
// goroutines, and must return the same for the same chunk, which they must not change.
type Renderer interface {
	// CanRender tells whether the chunk is this renderer's; the first that can renders it.
	CanRender(c *Chunk) bool
	// Role returns the role of the message in which the chunk stands.
	Role(c *Chunk) Role
	// Render returns the element. The Builder writes it, escapes attributes and
	// neutralises the body, so that nothing in a chunk can end the element. Its tag must
	// be one of the table's or of the Builder's Tags.
	Render(c *Chunk) Element
}

// An Element is how a chunk looks to the model:
//
//	<tag name="value" …>
//	body
//	</tag>
type Element struct {
	Tag        string
	Attributes []Attribute
	Body       Content
}

// An Attribute is shown on one line, cut to 200 characters.
type Attribute struct{ Name, Value string }

// legalName tells whether s may be the name of a tag or an attribute: 1 to 64 ASCII letters,
// digits, '_', '-' and '.', a letter first. It ends with a letter or digit, where no token
// goes on into the next character: see edge.
func legalName(s string) bool {
	if s == "" || len(s) > 64 || !isLetter(s[0]) {
		return false
	}
	for i := range len(s) {
		if b := s[i]; !isLetter(b) && !isDigit(b) && (i == len(s)-1 || b != '_' && b != '-' && b != '.') {
			return false
		}
	}
	return true
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// CheckTag refuses a name that no renderer may write: it is not legal, or a tag of sources.
func CheckTag(name string) error {
	switch {
	case !legalName(name):
		return wrong("tag", "%.80q is not a legal name: 1 to 64 ASCII letters, digits, '_', '-' and '.', a letter first and no sign last", name)
	case tags.Vocabulary{}.Count("<"+name+">") > 0:
		return wrong("tag", "%q is a tag of ours, for sources; choose another", name)
	}
	return nil
}
