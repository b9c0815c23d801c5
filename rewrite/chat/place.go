package chat

import (
	"bytes"
	"slices"
	"strings"
)

// A Place is where a text is inserted: an offset in the body, the number of bytes removed there,
// and the frame around the text.
type Place struct {
	Offset, Remove int
	Wrap           Span // a string that becomes the text of the first part of a list; zero if nothing does
	wrap           string
	Frame
}

// A Frame is what surrounds an inserted text. The inserted bytes depend on nothing else of the
// place.
type Frame struct {
	Before, After string // the application's text on both sides; Before may start at its last seam (see tail)
	Added         bool   // the text is a new message
	open, close   string // JSON before and after the quoted text
}

// JSON returns the bytes that insert a text, given in parts.
func (f Frame) JSON(parts []string) []byte {
	size := len(f.open) + len(f.close)
	for _, p := range parts {
		size += len(p) + len(p)/16
	}
	text := append(make([]byte, 0, size), f.open...)
	for _, p := range parts {
		text = appendQuoted(text, p)
	}
	return append(text, f.close...)
}

// Begin returns the beginning of what JSON returns, up to and including the text lead.
func (f Frame) Begin(lead string) []byte {
	return appendQuoted(append(make([]byte, 0, len(f.open)+2*len(lead)), f.open...), lead)
}

// End returns the end of what JSON returns, from the text trail on.
func (f Frame) End(trail string) []byte {
	return append(appendQuoted(make([]byte, 0, 2*len(trail)+len(f.close)), trail), f.close...)
}

// System returns the end of the first system or developer message or, without one, the place of a
// new message before all others. Strict chat templates refuse a second system message, and one
// that is not the first. Of Responses instructions are the first system message; of Messages it is
// always the member system.
func (r *Request) System() Place {
	if i := r.Operator(); i >= 0 {
		return r.EndOf(i)
	}
	return r.First("system")
}

// Operator returns the index of the message whose end System returns, -1 if that is a new message.
func (r *Request) Operator() int {
	if r.API == Messages && !r.hasOperator() {
		return -1
	}
	return slices.IndexFunc(r.kept, func(m message) bool { return m.operator() })
}

// Instructions returns the end of the member instructions of a Responses request, or of system of a
// Messages request, or the place of the member if it is absent.
func (r *Request) Instructions() Place {
	if r.hasOperator() {
		return r.EndOf(0)
	}
	return r.First("system")
}

// InInstructions reports whether a part of the body is in the member instructions or system.
func (r *Request) InInstructions(part Span) bool {
	return r.operator.Start <= part.Start && part.End <= r.operator.End
}

// First returns the place of a new message with the given role, before all others. Of Responses and
// Messages a system message is put into instructions or system, which must be absent or null.
func (r *Request) First(role string) Place {
	if name := dialects[r.API].operator; name != "" && role == "system" {
		if at := r.operator; at.Kind == KindNull {
			return Place{Offset: at.Start, Remove: at.End - at.Start, Frame: Frame{open: `"`, close: `"`, Added: true}}
		}
		return Place{Offset: r.first, Frame: Frame{open: `"` + name + `":"`, close: `",`, Added: true}}
	}
	at := Place{Offset: r.list.Start + 1, Frame: Frame{open: `{"role":"` + role + `","content":"`, close: `"},`, Added: true}}
	if len(r.Messages) == 0 {
		at.close = `"}`
	}
	return at
}

// EndOf returns the end of the content of the i-th message, whatever its form.
func (r *Request) EndOf(i int) Place {
	m := &r.kept[i]
	switch m.kind {
	case KindString:
		return Place{Offset: m.content.End - 1, Frame: Frame{Before: r.tail(m)}}
	case KindNull:
		return Place{Offset: m.content.Start, Remove: m.content.End - m.content.Start, Frame: Frame{open: `"`, close: `"`}}
	case KindArray:
		const close = `"}`
		open := dialects[r.API].openPart
		if m.last == 0 {
			return Place{Offset: m.content.Start + 1, Frame: Frame{open: open, close: close}}
		}
		return Place{Offset: m.last, Frame: Frame{open: "," + open, close: close, Before: r.tail(m)}}
	}
	return Place{Offset: m.content.Start, Frame: Frame{open: `,"content":"`, close: `"`}}
}

// PromptBefore returns how many bytes of the prompt come before an offset of the body, and how many
// the prompt has. The order is that in which upstreams cache prompts, whatever that of the body:
// tools, instructions or system, then the messages.
func (r *Request) PromptBefore(offset int) (before, whole int) {
	for _, tools := range r.Tools {
		before += tools.End - tools.Start
	}
	whole = before
	found := false
	for n, m := range r.Messages {
		size := m.End - m.Start
		whole += size
		switch {
		case found:
		case m.Start <= offset && offset <= m.End:
			before += offset - m.Start
			found = true
		case m.End < offset || n == 0 && r.hasOperator():
			before += size
		default:
			found = true
		}
	}
	return before, whole
}

// Whole returns the text within the result of JSON, still escaped.
func (f Frame) Whole(json []byte) []byte { return json[len(f.open) : len(json)-len(f.close)] }

// Text is like Whole without line feeds at the ends.
func (f Frame) Text(json []byte) []byte {
	text := f.Whole(json)
	for bytes.HasPrefix(text, lineFeed) {
		text = text[len(lineFeed):]
	}
	for bytes.HasSuffix(text, lineFeed) && (len(text)-len(bytes.TrimRight(text[:len(text)-1], `\`)))%2 == 0 { // the backslash is not itself escaped
		text = text[:len(text)-len(lineFeed)]
	}
	return text
}

// lineFeed must not be changed.
var lineFeed = []byte(`\n`)

// tail decodes the end of a message's text, from its last seam on. A seam is a place where token
// counts add up exactly: after a line feed not followed by a slash or white space. Without a seam
// it returns the whole text.
func (r *Request) tail(m *message) string {
	texts := []Span{m.content}
	if m.kind == KindArray {
		texts = r.parts[m.parts.Start:m.parts.End]
	}
	if len(texts) == 0 {
		return ""
	}
	seam, first := 0, len(texts)
	for first > 0 && seam == 0 {
		first--
		seam = lastSeam(texts[first].Of(r.Body))
	}
	// Unquote drops the first byte, so it gets one byte before the seam in place of the quote.
	tail := Unquote(texts[first].Of(r.Body)[max(seam-1, 0):])
	if len(texts)-first == 1 { // the usual case
		return tail
	}
	var all strings.Builder
	all.WriteString(tail)
	for _, text := range texts[first+1:] {
		all.WriteString(Unquote(text.Of(r.Body)))
	}
	return all.String()
}

// lastSeam returns the offset after the last escaped line feed of a quoted string that is
// followed by a plain character, 0 if there is none.
func lastSeam(raw []byte) int {
	for end := len(raw) - 1; ; {
		n := lastBackslash(raw[:end])
		if n < 0 {
			return 0
		}
		end = n
		if raw[n+1] != 'n' {
			continue
		}
		next := raw[n+2] // exists: at least the closing quote
		if next <= ' ' || next >= 0x80 || next == '/' || next == '\\' || next == '"' {
			continue
		}
		escapes := 0
		for raw[n-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return n + 2
		}
	}
}

// lastBackslash returns the offset of the last backslash in b, -1 without one.
func lastBackslash(b []byte) int {
	for len(b) >= 8 {
		w := word(b[len(b)-8:]) ^ ones*'\\'
		if (w-ones)&^w&tops != 0 { // one of the bytes is zero
			break
		}
		b = b[:len(b)-8]
	}
	return bytes.LastIndexByte(b, '\\')
}

// Extended returns the result of JSON with text added after its own text.
func (f Frame) Extended(json []byte, text string) []byte {
	at := len(json) - len(f.close)
	return append(appendQuoted(append([]byte(nil), json[:at]...), text), json[at:]...)
}
