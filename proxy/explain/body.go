package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

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
		fmt.Fprintf(&text, "\n… %d bytes …\n", size-maxBody)
		writeRange(&text, pieces, size-maxBody/2, size)
	}
	return Body{size, text.String()}
}

// writeRange writes the bytes from..to of what the pieces are together.
func writeRange(w *strings.Builder, pieces [][]byte, from, to int) {
	for _, p := range pieces {
		w.Write(p[min(max(from, 0), len(p)):min(max(to, 0), len(p))])
		from, to = from-len(p), to-len(p)
	}
}

// secrets match what looks like a key in a body: those of OpenAI and its like, ours among
// them, and the values of members that are called like one, such as those by which Azure is
// told to search with a key.
var secrets = regexp.MustCompile(`(?i)\bsk-[a-z0-9_-]{8,}|\bbearer +[a-z0-9._~+/=-]{8,}|("(?:[a-z_-]*(?:api[_-]?key|access[_-]?token|connection[_-]?string|authorization|password|secret)|key|token)"\s*:\s*")(?:[^"\\]|\\.)*("?)`)

// masked returns b without what looks like a key.
func (b *Body) masked() *Body {
	if b == nil {
		return nil
	}
	return &Body{b.Bytes, secrets.ReplaceAllString(b.Text, "${1}(a key)${2}")}
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
	r := redactor{out: make([]byte, 0, 1024)}
	size := 0
	for _, p := range pieces {
		r.write(p[:min(len(p), max(0, maxRead-size))])
		size += len(p)
	}
	r.word()
	if r.stopped || r.inString || len(r.open) > 0 {
		r.out = append(r.out, " …"...)
	}
	return Body{size, string(r.out)}
}

// A redactor copies the structure of JSON. Its memory is bounded: it stops when out is
// full.
type redactor struct {
	out     []byte
	stopped bool

	open    []byte // the brackets that are open
	name    bool   // the next string is the name of a member
	legible bool   // the value that comes next may be left

	inString, escaped bool
	token             []byte // the beginning of the string, number or word that is being read
	n                 int    // its length
}

func (r *redactor) write(piece []byte) {
	for len(piece) > 0 && !r.stopped {
		if r.inString {
			piece = r.text(piece)
			continue
		}
		c := piece[0]
		piece = piece[1:]
		switch {
		case c == '"':
			r.word()
			r.inString = true
		case strings.IndexByte(" \t\r\n", c) >= 0:
			r.word()
		case strings.IndexByte("{}[]:,", c) >= 0:
			if r.word(); !r.stopped {
				r.punctuation(c)
			}
		default:
			r.take([]byte{c})
		}
		r.stopped = r.stopped || len(r.out) > maxBody-2*maxLegible
	}
}

// text reads the part of a string that is in piece, and returns what follows.
func (r *redactor) text(piece []byte) []byte {
	escaped := r.escaped
	for i, c := range piece {
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			r.escaped = false
			r.take(piece[:i])
			r.inString = false
			r.string()
			return piece[i+1:]
		}
	}
	r.escaped = escaped
	r.take(piece)
	return nil
}

func (r *redactor) take(part []byte) {
	r.n += len(part)
	r.token = append(r.token, part[:min(len(part), maxLegible-len(r.token))]...)
}

// string writes the string that has been read.
func (r *redactor) string() {
	switch {
	case r.n <= maxLegible && (r.name || r.legible):
		r.out = append(append(append(r.out, '"'), r.token...), '"')
	default:
		r.out = append(strconv.AppendInt(append(r.out, `"(`...), int64(r.n), 10), ` bytes)"`...)
	}
	r.legible = r.name && slices.Contains(legible, string(r.token))
	r.name, r.token, r.n = false, r.token[:0], 0
}

// word writes the number or word that has been read, if there is one.
func (r *redactor) word() {
	switch {
	case r.n == 0:
		return
	case r.n > maxLegible || !number.Match(r.token) && string(r.token) != "true" && string(r.token) != "false" && string(r.token) != "null":
		r.stopped = true
		return
	}
	r.out = append(r.out, r.token...)
	r.token, r.n, r.legible = r.token[:0], 0, false
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
