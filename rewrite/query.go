package rewrite

import (
	"strings"
	"unicode/utf8"
)

// maxQuery is how many bytes of a question are searched with; of a longer one
// its first and last half, where questions stand.
const maxQuery = 8 << 10

// question returns the text to search with, the user's text before it, and the
// index of the last user message (-1 without one). Tool messages after it do
// not change them: each round of a tool loop asks the same again.
func (r *Request) question() (text, previous string, last int) {
	last = r.lastUser(len(r.messages))
	if last < 0 {
		return "", "", last
	}
	text = clip(r.text(&r.messages[last]))
	if before := r.lastUser(last); before >= 0 {
		previous = clip(r.text(&r.messages[before]))
	}
	return text, previous, last
}

// lastUser returns the last message of the user's before message n, -1 if there
// is none.
func (r *Request) lastUser(n int) int {
	for i := n - 1; i >= 0; i-- {
		if r.messages[i].role == roleUser {
			return i
		}
	}
	return -1
}

// text decodes a message's text: its string, or its text parts joined by line
// feeds.
func (r *Request) text(m *message) string {
	if m.kind == kindString {
		return unquote(m.content.of(r.Body))
	}
	var texts []string
	for s := range r.texts(m) {
		texts = append(texts, unquote(s.of(r.Body)))
	}
	return strings.Join(texts, "\n")
}

func clip(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= maxQuery {
		return text
	}
	head, tail := maxQuery/2, len(text)-maxQuery/2
	for !utf8.RuneStart(text[head]) {
		head--
	}
	for !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + "\n" + text[tail:]
}
