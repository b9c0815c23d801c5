package answer

import (
	"bytes"
	"encoding/json"
	"iter"
)

// MarkEvents is the byte order mark that a stream may begin with.
const MarkEvents = "\xef\xbb\xbf"

// Data returns the data of a stream's event and its offset in the event; nil if it has none. Data
// on several lines is returned as a copy in which spaces replace the bytes between the lines, so
// that offsets still match the event. A byte order mark before the event is skipped.
func Data(event []byte) (data []byte, from int) {
	at, to, lines := 0, 0, 0
	if bytes.HasPrefix(event, []byte(MarkEvents)) {
		at = len(MarkEvents)
	}
	for at < len(event) {
		line := event[at:]
		if n := bytes.IndexByte(line, '\n'); n >= 0 {
			line = line[:n+1]
		}
		if bytes.HasPrefix(line, field) {
			start, end := at+len(field), at+len(bytes.TrimRight(line, "\r\n"))
			switch lines++; lines {
			case 1:
				data, from, to = event[start:end:end], start, end
			case 2:
				data = bytes.Clone(data)
				fallthrough
			default:
				data = append(append(data, bytes.Repeat([]byte{' '}, start-to)...), event[start:end]...)
				to = end
			}
		}
		at += len(line)
	}
	return data, from
}

var field = []byte("data:")

// All yields the data of each event in a part of a stream. Some servers do not put an empty line
// between events: multi-line data that is not valid JSON is yielded line by line.
func All(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		begin := 0
		for at := 0; at < len(text); {
			n := bytes.IndexByte(text[at:], '\n') + 1
			if n == 0 {
				n = len(text) - at
			}
			line := text[at : at+n]
			at += n
			if at < len(text) && len(bytes.TrimRight(line, "\r\n")) > 0 {
				continue
			}
			event := text[begin:at]
			begin = at
			for data := range split(event) {
				if !yield(data) {
					return
				}
			}
		}
	}
}

// split yields the data of one event, or of each of its lines.
func split(event []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		data, _ := Data(event)
		if data == nil {
			return
		}
		if bytes.Count(event, field) < 2 || json.Valid(data) {
			yield(data)
			return
		}
		for line := range bytes.Lines(bytes.TrimPrefix(event, []byte(MarkEvents))) {
			if data, ok := bytes.CutPrefix(line, field); ok && !yield(bytes.TrimRight(data, "\r\n")) {
				return
			}
		}
	}
}
