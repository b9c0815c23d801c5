package explain

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// missingForm stands in the place of the middle of a body, and missing finds it: no JSON has it.
const missingForm = "\n… %d bytes …\n"

var missing = regexp.MustCompile(`\n… ([0-9]+) bytes …\n?`)

// stoppedForm stands at the end of a redacted body of which there was more.
const stoppedForm = " …"

// Ends returns what is kept of a body before and behind what is not, and how many bytes that has:
// 0 if all is kept, below 0 where that is not known.
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

// ends copies a body that is given in pieces. Of one that is too long it copies both
// ends, as what Sidenote adds stands near either, and says what is missing.
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

// endsOf is ends of a text.
func endsOf(text string) Body { return ends([][]byte{[]byte(text)}) }

// lengthOf is what is kept of a text where bodies are redacted.
func lengthOf(text string) Body { return Body{len(text), fmt.Sprintf("(%d bytes)", len(text))} }

// writeRange writes the bytes from..to of what the pieces are together.
func writeRange(w *strings.Builder, pieces [][]byte, from, to int) {
	for _, p := range pieces {
		w.Write(p[min(max(from, 0), len(p)):min(max(to, 0), len(p))])
		from, to = from-len(p), to-len(p)
	}
}

// legible are the members whose values redaction leaves, because they are words of the
// API. All other strings count as texts.
var legible = []string{"role", "type", "model"}

// maxLegible is the length, in bytes, up to which such a value, the name of a member or a
// number is left.
const maxLegible = 64

// maxRead is how much of a body is redacted, in bytes, so that it takes a few milliseconds.
const maxRead = 1 << 20

// redacted copies the structure of a JSON body that is given in pieces: each string
// becomes its length in bytes, as in "(120 bytes)", but for the names of members and the
// values of role, type and model. Numbers, true, false and null stay; white space goes.
// It reads the first maxRead bytes. Nothing is copied from the first byte on that cannot
// be JSON.
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

	open    []byte // the brackets that are open
	name    bool   // the next string is the name of a member
	legible bool   // the value that comes next may be left
}

// next copies what text begins with, and returns what follows.
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
		r.stopped = true // the string does not end
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

// string writes a string that has been read.
func (r *redactor) string(text []byte) {
	if len(text) <= maxLegible && (r.name || r.legible) {
		r.out = append(append(append(r.out, '"'), text...), '"')
	} else {
		r.out = append(strconv.AppendInt(append(r.out, `"(`...), int64(len(text)), 10), ` bytes)"`...)
	}
	r.legible = r.name && slices.Contains(legible, string(text))
	r.name = false
}

// word writes a number or word that has been read.
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
