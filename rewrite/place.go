package rewrite

import (
	"bytes"
	"strings"
)

// A place is where one piece of text goes: a hole in the body, the JSON around
// the text, and the application's text on both sides of it.
type place struct {
	offset, remove int
	frame
}

// A frame is what stands around the text at its place; what is inserted there depends
// on nothing else.
type frame struct {
	open, close   string // JSON before and after the quoted text
	before, after string // the app's text next to it; before from its last sure seam on
	added         bool   // a message of our own
}

// placement returns the placement in force: p's where the request has such a place and
// the model takes a message there. It is "" where there is none at all.
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

// places returns where the block goes. Under PlaceSplit the sources have a
// place of their own, otherwise both are the same.
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

// system is the end of the first message in which the application speaks for
// itself, or a message of our own before all others. Strict chat templates
// refuse a second system message, or one that is not the first.
func (r *Request) system() place {
	for i := range r.messages {
		if r.messages[i].role.operator() {
			return r.endOf(i)
		}
	}
	return place{offset: r.list.start + 1, frame: frame{open: `{"role":"system","content":"`, close: `"},`, added: true}}
}

// endOf is the end of a message's content, whatever form it has.
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

// marker is the hole that a marker leaves. The texts of a message's parts are one
// text to a model.
func (r *Request) marker(m span) place {
	at := place{offset: m.start, remove: m.end - m.start}
	// Further markers go too: they are not the application's text.
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

// tail decodes the end of a message's text, from a place on at which token
// counts add exactly: behind a line feed and before neither a slash nor white
// space. Without such a place it is the whole text.
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
	// The byte before a seam is taken for the quote.
	tail := unquote(texts[first].of(r.Body)[max(seam-1, 0):])
	if len(texts)-first == 1 { // mostly
		return tail
	}
	var all strings.Builder
	all.WriteString(tail)
	for _, text := range texts[first+1:] {
		all.WriteString(unquote(text.of(r.Body)))
	}
	return all.String()
}

// lastSeam returns the offset behind the last line feed of a quoted string that
// is followed by plain text, 0 if there is none.
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
		next := raw[n+2] // at the latest the closing quote
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

// lastBackslash returns where the last backslash of b is, -1 without one.
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

// around returns the line feeds between the block and the application's own
// text: two on each side, counting those already there.
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

// insert is the JSON that puts a text in this place.
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

// edit is the edit that makes an insertion in this place.
func (at place) edit(insert []byte) Edit {
	return Edit{Name: editInject, Offset: at.offset, Delete: at.remove, Insert: insert}
}
