package rewrite

import (
	"bytes"
	"strings"
)

// A place is where a text is inserted: an offset of the body, the bytes removed there,
// and the frame around the text.
type place struct {
	offset, remove int
	frame
}

// A frame is what surrounds the text at its place. The inserted bytes depend on nothing
// else of the place.
type frame struct {
	open, close   string // JSON before and after the quoted text
	before, after string // the application's text on both sides; before starts at its last sure seam
	added         bool   // a message of our own
}

// placement returns the placement in force: the policy's if the request and the model
// allow it, else another one. It is "" if there is no place at all.
func (r *Request) placement(p *Policy, m *Model, last int) Placement {
	switch want := p.Placement; {
	case m.NoSystem && last < 0:
		return ""
	case m.NoSystem:
		return PlaceLastUser
	case last >= 0 && (want == PlaceLastUser || want == PlaceSplit):
		return want
	case want == PlaceMarker && len(r.markers()) > 0:
		return want
	}
	return PlaceSystem
}

// places returns where the block and the sources go; these differ only under
// PlaceSplit.
func (r *Request) places(p Placement, last int) (block, sources place) {
	switch p {
	case PlaceLastUser:
		block = r.endOf(last)
	case PlaceSplit:
		return r.system(), r.endOf(last)
	case PlaceMarker:
		block = r.marker(r.markers()[0])
	default:
		block = r.system()
	}
	return block, block
}

// system returns the end of the first system or developer message or, without one, the
// place of a new message before all others. Strict chat templates refuse a second
// system message, and one that is not the first.
func (r *Request) system() place {
	for i := range r.messages {
		if r.messages[i].role.operator() {
			return r.endOf(i)
		}
	}
	return place{offset: r.list.start + 1, frame: frame{open: `{"role":"system","content":"`, close: `"},`, added: true}}
}

// endOf returns the end of the content of the i-th message, whatever form that has.
func (r *Request) endOf(i int) place {
	m := &r.messages[i]
	switch m.kind {
	case kindString:
		return place{offset: m.content.end - 1, frame: frame{before: r.tail(m)}}
	case kindNull:
		return place{offset: m.content.start, remove: m.content.end - m.content.start, frame: frame{open: `"`, close: `"`}}
	case kindArray:
		const open, close = `{"type":"text","text":"`, `"}`
		if m.last == 0 {
			return place{offset: m.content.start + 1, frame: frame{open: open, close: close}}
		}
		return place{offset: m.last, frame: frame{open: "," + open, close: close, before: r.tail(m)}}
	}
	return place{offset: m.content.start, frame: frame{open: `,"content":"`, close: `"`}}
}

// marker returns the place of a marker, which is removed. A model reads the parts of a
// message as one text, so the text on both sides is that of all parts.
func (r *Request) marker(m span) place {
	at := place{offset: m.start, remove: m.end - m.start}
	// Other markers are removed as well, so they are not part of the text on either
	// side.
	clean := func(raw []byte) string { return strings.ReplaceAll(unquote(raw), Marker, "") }
	for i := range r.messages {
		var before, after strings.Builder
		found := false
		for text := range r.texts(&r.messages[i]) {
			switch {
			case found:
				after.WriteString(clean(text.of(r.Body)))
			case m.start < text.end:
				before.WriteString(clean(join(`"`, r.Body[text.start+1:m.start], `"`)))
				after.WriteString(clean(join(`"`, r.Body[m.end:text.end-1], `"`)))
				found = true
			default:
				before.WriteString(clean(text.of(r.Body)))
			}
		}
		if found {
			at.before, at.after = before.String(), after.String()
			return at
		}
	}
	return at
}

func join(a string, b []byte, c string) []byte {
	return append(append([]byte(a), b...), c...)
}

// tail decodes the end of a message's text from its last sure seam on, a place at which
// token counts add exactly: behind a line feed that neither a slash nor white space
// follows. Without such a place it returns the whole text.
func (r *Request) tail(m *message) string {
	texts := []span{m.content}
	if m.kind == kindArray {
		texts = r.parts[m.parts.start:m.parts.end]
	}
	if len(texts) == 0 {
		return ""
	}
	seam, first := 0, len(texts)
	for first > 0 && seam == 0 {
		first--
		seam = lastSeam(texts[first].of(r.Body))
	}
	// unquote drops the first byte, so it gets one byte before the seam in place of the
	// quote.
	tail := unquote(texts[first].of(r.Body)[max(seam-1, 0):])
	if len(texts)-first == 1 { // the usual case
		return tail
	}
	var all strings.Builder
	all.WriteString(tail)
	for _, text := range texts[first+1:] {
		all.WriteString(unquote(text.of(r.Body)))
	}
	return all.String()
}

// lastSeam returns the offset behind the last escaped line feed of a quoted string that
// a plain character follows, 0 if there is none.
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
		next := raw[n+2] // there is one: the closing quote at least
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
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for len(b) >= 8 {
		w := word(b[len(b)-8:]) ^ ones*'\\'
		if (w-ones)&^w&tops != 0 { // a byte of it is zero
			break
		}
		b = b[:len(b)-8]
	}
	return bytes.LastIndexByte(b, '\\')
}

// around returns the line feeds to put between the block and the application's text:
// two on each side, less those that are there already.
func (at frame) around(parts []string) (lead, trail string) {
	end := ""
	if at.after != "" {
		end = strings.Join(parts, "")
	}
	behind := feedsAt(end, strings.TrimRight(end, "\n")) + feedsAt(at.after, strings.TrimLeft(at.after, "\n"))
	return feeds(at.before, feedsAt(at.before, strings.TrimRight(at.before, "\n"))), feeds(at.after, behind)
}

func feedsAt(text, trimmed string) int { return len(text) - len(trimmed) }

func feeds(neighbour string, have int) string {
	if neighbour == "" {
		return ""
	}
	return "\n\n"[min(have, 2):]
}

// insert returns the JSON that puts a text in this place.
func (at frame) insert(parts []string) []byte {
	size := len(at.open) + len(at.close)
	for _, p := range parts {
		size += len(p) + len(p)/16
	}
	insert := append(make([]byte, 0, size), at.open...)
	for _, p := range parts {
		insert = appendQuoted(insert, p)
	}
	return append(insert, at.close...)
}

// edit returns the edit that makes the insertion in this place.
func (at place) edit(insert []byte) Edit {
	return Edit{Name: editInject, Offset: at.offset, Delete: at.remove, Insert: insert}
}
