package chunks

import "sidenote/rewrite/tags"

// A Renderer renders some chunks. Its methods must be safe for concurrent use, deterministic, and
// must not modify the chunk.
type Renderer interface {
	// CanRender reports whether this renderer handles the chunk. The first one that does is used.
	CanRender(c *Chunk) bool
	// Role returns the role of the chunk's message.
	Role(c *Chunk) Role
	// Render returns the element. The Builder writes it, escapes attributes and neutralises the
	// body, so that nothing in a chunk can end the element. Its tag must be in the table or in
	// the Builder's Tags.
	Render(c *Chunk) Element
}

// An Element is the rendered form of a chunk:
//
//	<tag name="value" …>
//	body
//	</tag>
type Element struct {
	Tag        string
	Attributes []Attribute
	Body       Content
}

// An Attribute is shown on one line, limited to 200 characters.
type Attribute struct{ Name, Value string }

// legalName reports whether s may be the name of a tag or an attribute: 1 to 64 ASCII letters,
// digits, '_', '-' and '.', starting with a letter. It must end with a letter or digit, since no
// token extends from there into the next character; see edge.
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

// CheckTag returns an error if name is not a legal name or is a tag of sources.
func CheckTag(name string) error {
	switch {
	case !legalName(name):
		return wrong("tag", "%.80q is not a legal name: 1 to 64 ASCII letters, digits, '_', '-' and '.', a letter first and no sign last", name)
	case tags.Vocabulary{}.Count("<"+name+">") > 0:
		return wrong("tag", "%q is reserved for sources; choose another tag", name)
	}
	return nil
}
