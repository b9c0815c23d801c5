package explain

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sidenote/proxy/secrets"
)

// masked returns a copy of b with keys masked.
func (b *Body) masked() *Body {
	if b == nil {
		return nil
	}
	return &Body{b.Bytes, secrets.Mask(b.Text)}
}

// missingForm replaces the middle of a long body. missing matches it; valid JSON cannot contain
// it.
const missingForm = "\n… %d bytes …\n"

var missing = regexp.MustCompile(`\n… ([0-9]+) bytes …\n?`)

// stoppedForm ends a redacted body that was cut.
const stoppedForm = " …"

// Ends returns the kept parts of a body before and after the gap, and the number of bytes missing
// between them: 0 if the body is complete, -1 if the number is unknown.
func (b *Body) Ends() (head, tail string, lost int) {
	if at := missing.FindStringSubmatchIndex(b.Text); at != nil && b.Bytes > maxBody {
		lost, _ = strconv.Atoi(b.Text[at[2]:at[3]])
		return b.Text[:at[0]], b.Text[at[1]:], lost
	}
	if head, stopped := strings.CutSuffix(b.Text, stoppedForm); stopped {
		return head, "", -1
	}
	return b.Text, "", 0
}

// ends copies a body given in pieces. If it is too long, it copies both ends, as Sidenote adds
// text near either, and notes what is missing.
func ends(pieces [][]byte) Body {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	var text strings.Builder
	text.Grow(min(size, maxBody+64))
	if size <= maxBody {
		writeRange(&text, pieces, 0, size)
	} else {
		writeRange(&text, pieces, 0, maxBody/2)
		fmt.Fprintf(&text, missingForm, size-maxBody)
		writeRange(&text, pieces, size-maxBody/2, size)
	}
	return Body{size, text.String()}
}

// endsOf is ends for a string.
func endsOf(text string) Body { return ends([][]byte{[]byte(text)}) }

// lengthOf is the redacted form of a text.
func lengthOf(text string) Body { return Body{len(text), fmt.Sprintf("(%d bytes)", len(text))} }

// writeRange writes bytes from..to of the concatenated pieces.
func writeRange(w *strings.Builder, pieces [][]byte, from, to int) {
	for _, p := range pieces {
		w.Write(p[min(max(from, 0), len(p)):min(max(to, 0), len(p))])
		from, to = from-len(p), to-len(p)
	}
}

// legible are the members whose values stay in redacted bodies, because they are words of the API.
// All other strings are redacted.
var legible = []string{"role", "type", "model"}

// maxLegible is the maximum length in bytes of such values, of member names and of numbers.
const maxLegible = 64

// maxRead limits the bytes of a body that are redacted, so that it takes a few milliseconds.
const maxRead = 1 << 20

// redacted copies the structure of a JSON body given in pieces. Each string is replaced by its
// length, as in "(120 bytes)", except member names and the values of role, type and model.
// Numbers, true, false and null stay; white space is dropped. It reads the first maxRead bytes,
// and stops at the first byte that cannot be JSON.
func redacted(pieces [][]byte) Body {
	var text []byte
	size := 0
	for _, p := range pieces {
		text = append(text, p[:min(len(p), maxRead-len(text))]...)
		size += len(p)
	}
	r := redactor{out: make([]byte, 0, 1024)}
	for len(text) > 0 && !r.stopped {
		text = r.next(text)
		r.stopped = r.stopped || len(r.out) > maxBody-2*maxLegible
	}
	if r.stopped || len(r.open) > 0 {
		r.out = append(r.out, stoppedForm...)
	}
	return Body{size, string(r.out)}
}

// A redactor copies the structure of JSON.
type redactor struct {
	out     []byte
	stopped bool

	open    []byte // open brackets
	name    bool   // the next string is a member name
	legible bool   // the next value may be kept
}

// next handles the first token of text and returns the rest.
func (r *redactor) next(text []byte) (rest []byte) {
	switch c := text[0]; {
	case c == '"':
		for i := 1; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case '"':
				r.string(text[1:i])
				return text[i+1:]
			}
		}
		r.stopped = true // unterminated string
		return nil
	case strings.IndexByte("{}[]:,", c) >= 0:
		r.punctuation(c)
		return text[1:]
	case strings.IndexByte(" \t\r\n", c) >= 0:
		return text[1:]
	}
	end := bytes.IndexAny(text, "\"{}[]:, \t\r\n")
	if end < 0 {
		end = len(text)
	}
	r.word(text[:end])
	return text[end:]
}

// string writes a string token.
func (r *redactor) string(text []byte) {
	if len(text) <= maxLegible && (r.name || r.legible) {
		r.out = append(append(append(r.out, '"'), text...), '"')
	} else {
		r.out = append(strconv.AppendInt(append(r.out, `"(`...), int64(len(text)), 10), ` bytes)"`...)
	}
	r.legible = r.name && slices.Contains(legible, string(text))
	r.name = false
}

// word writes a number or literal.
func (r *redactor) word(text []byte) {
	if len(text) > maxLegible || !number.Match(text) && string(text) != "true" && string(text) != "false" && string(text) != "null" {
		r.stopped = true
		return
	}
	r.out = append(r.out, text...)
	r.legible = false
}

var number = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (r *redactor) punctuation(c byte) {
	switch c {
	case '{', '[':
		r.open = append(r.open, c)
		r.legible = false
	case '}', ']':
		if len(r.open) == 0 || r.open[len(r.open)-1] != c-2 {
			r.stopped = true
			return
		}
		r.open = r.open[:len(r.open)-1]
	}
	r.out = append(r.out, c)
	r.name = len(r.open) > 0 && r.open[len(r.open)-1] == '{' && (c == '{' || c == ',')
}
