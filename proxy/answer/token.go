package answer

import (
	"bytes"

	"sidenote/proxy/route"
)

// HasToken reports whether a piece of a plain event stream of a route has the start of generated
// output: text, reasoning, a refusal or a tool call. Events that only announce an answer have none.
// It looks at the piece as text and decodes nothing: an event that is split between pieces may be
// missed.
func HasToken(on route.Kind, piece []byte) bool {
	switch on {
	case route.Messages:
		return bytes.Contains(piece, []byte("content_block_delta"))
	case route.Responses:
		return bytes.Contains(piece, []byte(`.delta"`))
	}
	for _, key := range [...]string{`content"`, `reasoning"`, `text"`, `tool_calls"`, `refusal"`} { // reasoning_content too
		if filled(piece, key) {
			return true
		}
	}
	return false
}

// filled reports whether a key, given by its end, has a non-empty string or list as its value.
func filled(text []byte, key string) bool {
	for {
		at := bytes.Index(text, []byte(key))
		if at < 0 {
			return false
		}
		text = bytes.TrimLeft(text[at+len(key):], " ")
		value, ok := bytes.CutPrefix(text, []byte(":"))
		if !ok {
			continue
		}
		value = bytes.TrimLeft(value, " ")
		if len(value) > 1 && (value[0] == '"' && value[1] != '"' || value[0] == '[' && value[1] != ']') {
			return true
		}
	}
}
