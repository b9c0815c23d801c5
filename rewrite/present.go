package rewrite

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/tags"
)

// asked returns the texts of the messages up to the last of the user's. What
// follows it, the rounds of a tool loop, must not change what is added: each
// round sends the same prefix, so that upstream prompt caches hold.
func (r *Request) asked(last int) []span {
	if last < 0 {
		last = len(r.messages) - 1
	}
	texts := make([]span, 0, last+1)
	for i := range r.messages[:last+1] {
		texts = slices.AppendSeq(texts, r.texts(&r.messages[i]))
	}
	return texts
}

// absent splits off the sources whose text stands in the request's own messages
// already. A source without text is neither. Where all are absent the answer is
// sources itself.
func (r *Request) absent(sources []retrieval.Source, last int) (left, present []retrieval.Source) {
	texts := r.asked(last)
	for i, s := range sources {
		text := strings.TrimSpace(s.Text)
		if text != "" && !r.holds(texts, text) {
			if left != nil {
				left = append(left, s)
			}
			continue
		}
		if left == nil {
			left = append(make([]retrieval.Source, 0, len(sources)), sources[:i]...)
		}
		if text != "" {
			present = append(present, s)
		}
	}
	if left == nil {
		return sources, nil
	}
	return left, present
}

// holds tells whether one of texts contains text. A run of bytes that every
// JSON encoder writes as they are tells mostly without decoding.
func (r *Request) holds(texts []span, text string) bool {
	var probe []byte
	for _, t := range texts {
		if t.end-t.start < len(text) {
			continue
		}
		if probe == nil {
			probe = []byte(verbatim(text))
		}
		if bytes.Contains(t.of(r.Body), probe) && strings.Contains(unquote(t.of(r.Body)), text) {
			return true
		}
	}
	return false
}

// verbatim returns the first run of 48 bytes of text that no JSON encoder
// escapes, or the longest there is; it may be empty.
func verbatim(text string) string {
	const enough = 48
	best, start := "", 0
	for i := range len(text) {
		if escapable(text[i]) {
			if i-start > len(best) {
				best = text[start:i]
			}
			start = i + 1
		} else if i+1-start == enough {
			return text[start : i+1]
		}
	}
	if len(text)-start > len(best) {
		best = text[start:]
	}
	return best
}

// escapable tells the bytes that some JSON encoder writes as an escape.
func escapable(c byte) bool {
	switch c {
	case '"', '\\', '/', '<', '>', '&', '\'', '+':
		return true
	}
	return c < ' ' || c >= 0x7f
}

// appTags counts tags of our vocabulary in the app's own messages: somebody may
// be trying to pass for a source. Most requests hold no byte that could begin
// one.
func (r *Request) appTags() int {
	raw := r.list.of(r.Body)
	if bytes.IndexByte(raw, '<') < 0 && bytes.IndexByte(raw, '&') < 0 && !bytes.Contains(raw, []byte(`\u`)) && ascii(raw) {
		return 0
	}
	n := 0
	for i := range r.messages {
		for text := range r.texts(&r.messages[i]) {
			n += tags.Count(unquote(text.of(r.Body)))
		}
	}
	return n
}

func ascii(b []byte) bool {
	const tops = 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b)&tops != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
