package chat

import (
	"bytes"
	"iter"
	"strings"
)

// A Head is the beginning of a message's text. The zero Head is that of a missing message.
type Head struct {
	r    *Request
	m    *message
	most int // bytes of JSON
}

// UserHead returns the beginning of the last user message, most bytes of its JSON.
func (r *Request) UserHead(most int) Head {
	if i := r.lastUser(len(r.kept)); i >= 0 {
		return Head{r, &r.kept[i], most}
	}
	return Head{}
}

// SystemHead returns the beginning of the first system or developer message, most bytes of its
// JSON.
func (r *Request) SystemHead(most int) Head {
	for i := range r.kept {
		if r.kept[i].operator() {
			return Head{r, &r.kept[i], most}
		}
	}
	return Head{}
}

// raw yields the texts of the message, up to most bytes of JSON, without quotes.
func (h Head) raw() iter.Seq[[]byte] {
	const least = 6 // the longest escape
	return func(yield func([]byte) bool) {
		if h.m == nil {
			return
		}
		left := h.most
		for s := range h.r.texts(h.m) {
			text := s.Of(h.r.Body)
			text = text[1 : len(text)-1]
			if len(text) > max(left, least) {
				text = text[:boundary(text, max(left, least))]
			}
			if left -= len(text); !yield(text) || left <= 0 {
				return
			}
		}
	}
}

// Ambiguous reports whether two parsers could read the message differently.
func (h Head) Ambiguous() bool { return h.m != nil && h.m.ambiguous }

// Begins reports whether the text begins with plain, after white space. plain must have no
// character that JSON writers escape, as nothing is decoded.
func (h Head) Begins(plain string) bool {
	if h.m == nil {
		return false
	}
	for s := range h.r.texts(h.m) {
		text := s.Of(h.r.Body)
		text = text[1 : len(text)-1]
		for len(text) > 0 {
			if text[0] == ' ' {
				text = text[1:]
			} else if len(text) > 1 && text[0] == '\\' && (text[1] == 'n' || text[1] == 'r' || text[1] == 't') {
				text = text[2:]
			} else {
				return begins(text, plain)
			}
		}
	}
	return false
}

// Contains reports whether the text contains plain, likewise.
func (h Head) Contains(plain string) bool {
	for text := range h.raw() {
		if bytes.Contains(text, []byte(plain)) {
			return true
		}
	}
	return false
}

// Text returns the text without white space around it, texts of several parts joined by line
// feeds. It is "" if there is no such message.
func (h Head) Text() string {
	var texts []string
	for text := range h.raw() {
		texts = append(texts, decode(text))
	}
	return strings.TrimSpace(strings.Join(texts, "\n"))
}
