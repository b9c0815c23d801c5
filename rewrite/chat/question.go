package chat

import (
	"bytes"
	"iter"
	"strings"
	"unicode/utf8"
)

// maxQuery is the longest question to search with, in bytes. Of a longer one, the first and last
// maxQuery/2 bytes are used, because questions tend to be at the ends of long texts.
const maxQuery = 8 << 10

// Question returns the text to search with and the index of the last user message (-1 if none).
// Later tool messages do not matter, so each round of a tool loop searches for the same.
func (r *Request) Question() (text string, last int) {
	if last = r.lastUser(len(r.kept)); last >= 0 {
		text = r.clipped(&r.kept[last], maxQuery)
	}
	return text, last
}

// Earlier yields the user's texts before message n, last first. Texts longer than most bytes are
// shortened to their two ends, and messages without text are skipped. It stops at a message that
// two parsers could read differently.
func (r *Request) Earlier(n, most int, valid Validity) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := r.lastUser(n); i >= 0 && r.Ambiguity(i, valid) == nil; i = r.lastUser(i) {
			if text := r.clipped(&r.kept[i], most); text != "" && !yield(text) {
				return
			}
		}
	}
}

// lastUser returns the index of the last user message before message n, -1 if there is none.
func (r *Request) lastUser(n int) int {
	for i := n - 1; i >= 0; i-- {
		if r.kept[i].role == roleUser {
			return i
		}
	}
	return -1
}

// text decodes a message's text: its string, or its text parts joined by line feeds.
func (r *Request) text(m *message) string {
	if m.kind == KindString {
		return Unquote(m.content.Of(r.Body))
	}
	var texts []string
	for s := range r.texts(m) {
		texts = append(texts, Unquote(s.Of(r.Body)))
	}
	return strings.Join(texts, "\n")
}

// clipped returns the message's text shortened by clip. Users paste whole documents, so of a long
// string only the ends are decoded.
func (r *Request) clipped(m *message, most int) string {
	if m.kind != KindString || m.content.End-m.content.Start < 9*most {
		return clip(r.text(m), most)
	}
	raw := m.content.Of(r.Body)
	raw = raw[1 : len(raw)-1]
	// How many bytes of each end decode to half of most: first as many as the beginning of the
	// text suggests, then enough even if every byte is escaped.
	sample := raw[:boundary(raw, 512)]
	guess := most / 2 * len(sample) / len(decode(sample)) * 9 / 8
	for _, enough := range [...]int{min(guess, 3*most), 3 * most} {
		first, last := boundary(raw, enough), boundary(raw, len(raw)-enough)
		if first >= last {
			break
		}
		head, tail := strings.TrimSpace(decode(raw[:first])), strings.TrimSpace(decode(raw[last:]))
		if len(head) > most/2 && len(tail) > most/2 {
			return ends(head, tail, most)
		}
	}
	return clip(r.text(m), most)
}

// boundary returns the first offset from at on that is not inside an escape. It may be inside a
// UTF-8 character, which is far from the part that is kept.
func boundary(raw []byte, at int) int {
	const most = 5 // bytes of an escape after its backslash
	for at < len(raw) {
		slash := bytes.LastIndexByte(raw[at-most:at], '\\')
		if slash < 0 {
			return at
		}
		at += slash + 1
	}
	return len(raw)
}

// clip trims white space at both ends of text. If it is longer than most bytes, it keeps the
// first and the last most/2.
func clip(text string, most int) string {
	text = strings.TrimSpace(text)
	if len(text) <= most {
		return text
	}
	return ends(text, text, most)
}

// ends joins the first most/2 bytes of head and the last most/2 bytes of tail.
func ends(head, tail string, most int) string {
	first, last := most/2, len(tail)-most/2
	for !utf8.RuneStart(head[first]) {
		first--
	}
	for !utf8.RuneStart(tail[last]) {
		last++
	}
	return head[:first] + "\n" + tail[last:]
}
