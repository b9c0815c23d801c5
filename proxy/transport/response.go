package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// maxHead is the size of the largest head, with the interim answers before it.
const maxHead = 64 << 10

// errFraming is wrapped by every error about what an upstream sent.
var errFraming = errors.New("malformed answer")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errFraming}, args...)...)
}

// An answerHead is a parsed head. Its slices point into the text it was read from.
type answerHead struct {
	status    int
	http10    bool
	reason    []byte
	lines     []byte // all header lines, each with its line end
	kind      bodyKind
	length    int64 // of a fixed body
	connected connectionList

	encoded, sized bool  // there is a Transfer-Encoding, a Content-Length
	unframed       error // why the body's framing cannot be trusted
}

type bodyKind int

const (
	bodyNone bodyKind = iota
	bodyFixed
	bodyChunked
	bodyUntilClose
)

// read reads the next final head from br into text and parses it. interim, unless it is
// nil, is called for each interim answer (1xx) before it. isHead tells that the request's
// method was HEAD.
func (h *answerHead) read(br *bufio.Reader, text []byte, isHead bool, interim func(*answerHead)) (_ []byte, err error) {
	budget := maxHead
	for {
		if text, err = readBlock(br, text[:0], &budget); err != nil {
			return text, err
		}
		if err = h.parse(text); err != nil {
			return text, err
		}
		if h.status >= 200 || h.status == 101 {
			return text, h.frame(isHead)
		}
		if interim != nil {
			interim(h)
		}
	}
}

// readBlock appends lines up to and including the next empty one.
func readBlock(br *bufio.Reader, text []byte, budget *int) ([]byte, error) {
	if _, err := br.Peek(1); err != nil {
		return text, err
	}
	if block := wholeBlock(br); block != nil && len(block) <= *budget {
		*budget -= len(block)
		text = append(text, block...)
		_, err := br.Discard(len(block))
		return text, err
	}
	start := len(text) // of the current line
	for {
		piece, err := br.ReadSlice('\n')
		if *budget -= len(piece); *budget < 0 {
			return text, malformed("more than %d bytes of head", maxHead)
		}
		text = append(text, piece...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return text, err
		}
		if line := bytes.TrimRight(text[start:], "\r\n"); len(line) == 0 && start > 0 {
			return text, nil
		}
		start = len(text)
	}
}

// wholeBlock returns the lines up to and including the next empty one if they have
// arrived, nil if not. They stay in br.
func wholeBlock(br *bufio.Reader) []byte {
	arrived, _ := br.Peek(br.Buffered()) // cannot fail
	for at := 0; ; {
		i := bytes.IndexByte(arrived[at:], '\n')
		if i < 0 {
			return nil
		}
		end := at + i + 1
		if at > 0 && (i == 0 || i == 1 && arrived[at] == '\r') {
			return arrived[:end]
		}
		at = end
	}
}

// parse checks a block of lines. A line that two readers could read differently is an
// error.
func (h *answerHead) parse(text []byte) error {
	*h = answerHead{}
	first, lines, _ := cutLine(text)
	if err := h.parseStatus(first); err != nil {
		return err
	}
	for at := 0; ; {
		rest := lines[at:]
		if len(rest) > 0 && rest[0] == '\n' || len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n' {
			h.lines = lines[:at]
			return nil
		}
		f, ok := nextField(rest)
		if !ok {
			return malformed("header line %d", bytes.Count(lines[:at], []byte{'\n'})+1)
		}
		h.note(f.name(rest), f.value(rest))
		at += f.next
	}
}

// note notes a line about the length of the body or the use of the connection.
func (h *answerHead) note(name, value []byte) {
	switch kindOf(name) {
	case connectionName:
		h.connected.add(value)
	case encodingName:
		if h.encoded || h.http10 || !is(value, "chunked") {
			h.unframed = malformed("transfer encoding")
		}
		h.encoded = true
	case lengthName:
		n, err := contentLength(value)
		if err != nil || h.sized && n != h.length {
			h.unframed = malformed("content length")
		}
		h.length, h.sized = n, true
	}
}

// parseStatus reads "HTTP/1.1 200 OK"; the reason may be missing, with or
// without the space before it.
func (h *answerHead) parseStatus(line []byte) error {
	const code = len("HTTP/1.1 ")
	if len(line) < code+3 || line[code-1] != ' ' {
		return malformed("status line")
	}
	switch string(line[:code-1]) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.http10 = true
	default:
		return malformed("protocol version")
	}
	for _, c := range line[code : code+3] {
		if c < '0' || c > '9' {
			return malformed("status code")
		}
		h.status = h.status*10 + int(c-'0')
	}
	if h.status < 100 {
		return malformed("status code %d", h.status)
	}
	if rest := line[code+3:]; len(rest) > 0 {
		if rest[0] != ' ' || !validText(rest) {
			return malformed("reason")
		}
		h.reason = rest[1:]
	}
	return nil
}

// frame decides how the body ends (RFC 9112 §6.3). It refuses every head for which two
// readers could differ about that.
func (h *answerHead) frame(isHead bool) error {
	switch {
	case h.unframed != nil:
		return h.unframed
	case h.encoded && h.sized:
		return malformed("content length and transfer encoding")
	case isHead, h.status < 200, h.status == 204, h.status == 304:
		h.kind = bodyNone
	case h.encoded:
		h.kind = bodyChunked
	case h.sized:
		h.kind = bodyFixed
	default:
		h.kind = bodyUntilClose
	}
	return nil
}

// contentLength parses one or more digits: no sign, no list, no overflow.
func contentLength(value []byte) (int64, error) {
	var n int64
	for _, c := range value {
		if c < '0' || c > '9' || n > (1<<62-10)/10 { // no overflow, and room to add
			return 0, strconv.ErrSyntax
		}
		n = n*10 + int64(c-'0')
	}
	if len(value) == 0 {
		return 0, strconv.ErrSyntax
	}
	return n, nil
}

// reusable reports whether the upstream keeps the connection after the body.
func (h *answerHead) reusable() bool {
	if h.kind == bodyUntilClose || h.status == 101 || h.connected.close {
		return false
	}
	return !h.http10 || h.connected.keepAlive
}

// field returns the value of the first line called name.
func (h *answerHead) field(name []byte) []byte {
	for line, rest, ok := cutLine(h.lines); ok; line, rest, ok = cutLine(rest) {
		if n, value, _ := cutField(line); len(n) == len(name) && bytes.EqualFold(n, name) {
			return value
		}
	}
	return nil
}

// append writes the reason and the lines that are relayed to a client, verbatim and in
// order. A replacement stands at the place of the first line that it replaces. No line
// end follows the last line.
func (h *answerHead) append(dst []byte, replace []Header) []byte {
	dst = append(dst, h.reason...)
	var written uint64 // bit i: replace[i] has been written
	for line, rest, ok := cutLine(h.lines); ok; line, rest, ok = cutLine(rest) {
		name := line[:bytes.IndexByte(line, ':')]
		if i := replaced(replace, name); i >= 0 {
			dst = appendAnswerLine(dst, replace, i, &written)
		} else if h.passes(name) && !(is(name, "trailer") && announces(line[len(name)+1:], replace)) {
			dst = append(dst, "\r\n"...)
			dst = append(dst, line...)
		}
	}
	for i := range replace {
		dst = appendAnswerLine(dst, replace, i, &written)
	}
	return dst
}

// announces reports whether the value of a Trailer line names a header that is replaced
// or does not pass in a trailer. Such a line is left out, which does no harm: it only
// says what may follow.
func announces(value []byte, replace []Header) bool {
	for more := true; more; {
		var name []byte
		name, value, more = bytes.Cut(value, []byte{','})
		if name = trimBlanks(name); replaced(replace, name) >= 0 || forbiddenTrailer(name) {
			return true
		}
	}
	return false
}

func appendAnswerLine(dst []byte, replace []Header, i int, written *uint64) []byte {
	if bit := uint64(1) << i; *written&bit == 0 && replace[i].Value != "" {
		*written |= bit
		dst = append(dst, "\r\n"...)
		dst = append(dst, replace[i].Name...)
		dst = append(dst, ": "...)
		dst = append(dst, replace[i].Value...)
	}
	return dst
}

// passes reports whether a line is relayed to the client. Content-Length is, if there is
// no body that it would frame (HEAD, 304), and Trailer is only before chunks.
func (h *answerHead) passes(name []byte) bool {
	switch kind := kindOf(name); {
	case kind == trailerName:
		return h.kind == bodyChunked && !h.connected.names(name)
	case kind == lengthName:
		return h.kind == bodyNone && h.status >= 200 && h.status != 204
	case h.status == 101 && (kind == upgradeName || kind == connectionName):
		return true
	case h.status < 200 && kind == ownName:
		return false
	case kind.hopByHop():
		return false
	}
	return !h.connected.names(name)
}
