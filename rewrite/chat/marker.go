package chat

import (
	"bytes"
	"strings"
)

// marker in a system or developer message says where the block goes.
const marker = "{{sidenote}}"

// Markers returns the markers in system and developer messages, never those in a user's text.
func (r *Request) Markers() []Span {
	var found []Span
	for i := range r.kept {
		m := &r.kept[i]
		if !m.operator() {
			continue
		}
		for text := range r.texts(m) {
			found = r.appendMarkers(found, text)
		}
	}
	return found
}

// appendMarkers appends the markers in a quoted string. It also finds markers with \u escapes: no
// client is known to write them, but they are the same text.
func (r *Request) appendMarkers(found []Span, text Span) []Span {
	for at := text.Start + 1; at < text.End; {
		switch {
		case r.seen&markCode == 0:
			n := bytes.Index(r.Body[at:text.End], []byte(marker))
			if n < 0 {
				return found
			}
			at += n
			found = append(found, Span{at, at + len(marker)})
			at += len(marker)
		case r.markerAt(at) > 0:
			found = append(found, Span{at, at + r.markerAt(at)})
			at += r.markerAt(at)
		case r.Body[at] == '\\':
			at += 2
		default:
			at++
		}
	}
	return found
}

// markerAt returns the length of the marker at offset at, which may contain \u escapes; 0 if
// there is none.
func (r *Request) markerAt(at int) int {
	n := at
	for i := range len(marker) {
		b := r.Body[n:]
		if b[0] == marker[i] {
			n++
			continue
		}
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
			return 0
		}
		if c, ok := hex4(b[2:6]); !ok || c != rune(marker[i]) {
			return 0
		}
		n += 6
	}
	return n - at
}

// AtMarker returns the place of a marker, which is removed. Models read the parts of a message as
// one text, so Before and After hold the text of all parts.
func (r *Request) AtMarker(m Span) Place {
	at := Place{Offset: m.Start, Remove: m.End - m.Start}
	// Other markers are removed as well, so they are not part of the text on either side.
	clean := func(start, end int) string { return strings.ReplaceAll(decode(r.Body[start:end]), marker, "") }
	for i := range r.kept {
		var before, after strings.Builder
		found := false
		for text := range r.texts(&r.kept[i]) {
			switch {
			case found:
				after.WriteString(clean(text.Start+1, text.End-1))
			case text.Start < m.Start && m.End < text.End:
				before.WriteString(clean(text.Start+1, m.Start))
				after.WriteString(clean(m.End, text.End-1))
				found = true
			default:
				before.WriteString(clean(text.Start+1, text.End-1))
			}
		}
		if found {
			at.Before, at.After = before.String(), after.String()
			return at
		}
	}
	return at
}
