package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxHead is the size limit of a head, including the interim answers before it.
const maxHead = 64 << 10

// ErrFraming is wrapped by all errors about what an upstream sent.
var ErrFraming = errors.New("malformed answer")

// Malformed returns an error that wraps ErrFraming.
func Malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrFraming}, args...)...)
}

// An AnswerHead is the parsed head of an answer. Its slices point into the text it was read from.
type AnswerHead struct {
	Status    int
	http10    bool
	reason    []byte
	lines     []byte // all header lines, each with its line end
	Kind      BodyKind
	Length    int64 // for BodyFixed
	connected Connection

	encoded, sized bool  // there is a Transfer-Encoding, a Content-Length
	unframed       error // why the body's framing cannot be trusted
}

// A BodyKind is the framing of a body.
type BodyKind int

const (
	BodyNone BodyKind = iota
	BodyFixed
	BodyChunked
	BodyUntilClose
)

// Read reads the next final head from br into text and parses it. interim, if not nil, is called
// for each interim answer (1xx) before it. isHead reports that the request's method was HEAD.
func (h *AnswerHead) Read(br *bufio.Reader, text []byte, isHead bool, interim func(*AnswerHead)) (_ []byte, err error) {
	budget := maxHead
	for {
		if text, err = readBlock(br, text[:0], &budget); err != nil {
			return text, err
		}
		if err = h.parse(text); err != nil {
			return text, err
		}
		if h.Status >= 200 || h.Status == 101 {
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
	start := len(text) // offset of the current line
	for {
		piece, err := br.ReadSlice('\n')
		if *budget -= len(piece); *budget < 0 {
			return text, Malformed("more than %d bytes of head", maxHead)
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

// wholeBlock returns the lines up to and including the next empty one if they have arrived,
// otherwise nil. They stay in br.
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

// parse parses a block of lines. An ambiguous line is an error.
func (h *AnswerHead) parse(text []byte) error {
	*h = AnswerHead{}
	first, lines, _ := CutLine(text)
	if err := h.parseStatus(first); err != nil {
		return err
	}
	for at := 0; ; {
		rest := lines[at:]
		if len(rest) > 0 && rest[0] == '\n' || len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n' {
			h.lines = lines[:at]
			return nil
		}
		f, ok := NextField(rest)
		if !ok {
			return Malformed("header line %d", bytes.Count(lines[:at], []byte{'\n'})+1)
		}
		h.note(f.Name(rest), f.Value(rest))
		at += f.Next
	}
}

// note records a line about the length of the body or the use of the connection.
func (h *AnswerHead) note(name, value []byte) {
	switch KindOf(name) {
	case ConnectionName:
		h.connected.Add(value)
	case EncodingName:
		if h.encoded || h.http10 || !Is(value, "chunked") {
			h.unframed = Malformed("transfer encoding")
		}
		h.encoded = true
	case LengthName:
		n, err := contentLength(value)
		if err != nil || h.sized && n != h.Length {
			h.unframed = Malformed("content length")
		}
		h.Length, h.sized = n, true
	}
}

// parseStatus parses "HTTP/1.1 200 OK"; the reason may be missing, with or without the space before
// it.
func (h *AnswerHead) parseStatus(line []byte) error {
	const code = len("HTTP/1.1 ")
	if len(line) < code+3 || line[code-1] != ' ' {
		return Malformed("status line")
	}
	switch string(line[:code-1]) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.http10 = true
	default:
		return Malformed("protocol version")
	}
	for _, c := range line[code : code+3] {
		if c < '0' || c > '9' {
			return Malformed("status code")
		}
		h.Status = h.Status*10 + int(c-'0')
	}
	if h.Status < 100 {
		return Malformed("status code %d", h.Status)
	}
	if rest := line[code+3:]; len(rest) > 0 {
		if rest[0] != ' ' || !ValidText(rest) {
			return Malformed("reason")
		}
		h.reason = rest[1:]
	}
	return nil
}

// frame decides how the body ends (RFC 9112 §6.3). It refuses heads that are ambiguous about that.
func (h *AnswerHead) frame(isHead bool) error {
	switch {
	case h.unframed != nil:
		return h.unframed
	case h.encoded && h.sized:
		return Malformed("content length and transfer encoding")
	case isHead, h.Status < 200, h.Status == 204, h.Status == 304:
		h.Kind = BodyNone
	case h.encoded:
		h.Kind = BodyChunked
	case h.sized:
		h.Kind = BodyFixed
	default:
		h.Kind = BodyUntilClose
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

// Reusable reports whether the upstream keeps the connection open after the body.
func (h *AnswerHead) Reusable() bool {
	if h.Kind == BodyUntilClose || h.Status == 101 || h.connected.Close {
		return false
	}
	return !h.http10 || h.connected.KeepAlive
}

// Field returns the value of the first line with that name, or nil.
func (h *AnswerHead) Field(name []byte) []byte {
	for line, rest, ok := CutLine(h.lines); ok; line, rest, ok = CutLine(rest) {
		if n, value, _ := CutField(line); len(n) == len(name) && bytes.EqualFold(n, name) {
			return value
		}
	}
	return nil
}

// Append writes the reason and the lines that are relayed to a client, verbatim and in order. A
// replacement takes the place of the first line that it replaces. No line end follows the last
// line.
func (h *AnswerHead) Append(dst []byte, replace []Header) []byte {
	dst = append(dst, h.reason...)
	var written uint64 // bit i: replace[i] has been written
	for line, rest, ok := CutLine(h.lines); ok; line, rest, ok = CutLine(rest) {
		name := line[:bytes.IndexByte(line, ':')]
		if i := Replaced(replace, name); i >= 0 {
			dst = appendAnswerLine(dst, replace, i, &written)
		} else if h.passes(name) && !(Is(name, "trailer") && announces(line[len(name)+1:], replace)) {
			dst = append(dst, "\r\n"...)
			dst = append(dst, line...)
		}
	}
	for i := range replace {
		dst = appendAnswerLine(dst, replace, i, &written)
	}
	return dst
}

// announces reports whether a Trailer line names a header that is replaced or not relayed in a
// trailer. Such a line can be left out safely, because it only says what may follow.
func announces(value []byte, replace []Header) bool {
	for more := true; more; {
		var name []byte
		name, value, more = bytes.Cut(value, []byte{','})
		if name = trimBlanks(name); Replaced(replace, name) >= 0 || forbiddenTrailer(name) {
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

// passes reports whether a line is relayed to the client. Content-Length is if there is no body
// (HEAD, 304), and Trailer only before chunks.
func (h *AnswerHead) passes(name []byte) bool {
	switch kind := KindOf(name); {
	case kind == TrailerName:
		return h.Kind == BodyChunked && !h.connected.Names(name)
	case kind == LengthName:
		return h.Kind == BodyNone && h.Status >= 200 && h.Status != 204
	case h.Status == 101 && (kind == UpgradeName || kind == ConnectionName):
		return true
	case h.Status < 200 && kind == OwnName:
		return false
	case kind.HopByHop():
		return false
	}
	return !h.connected.Names(name)
}

// minPerWait is how many bytes of a body must arrive within each wait of ReadBody. 256 KiB in a
// minute is a twentieth of what a slow line carries.
const minPerWait = 256 << 10

// uncountedBytes is how much of a body is kept without reserving memory from Memory.
const uncountedBytes = 64<<10 + 1

// A BodyMemory limits the memory for bodies.
type BodyMemory interface {
	// Take reserves n bytes and reports whether they were available. The caller of ReadBody gives
	// them back when the handler has returned, or once Answer.Sent is true.
	Take(n int) bool
}

// ErrNoRoom is returned if a BodyMemory has no memory for a body.
var ErrNoRoom = errors.New("not enough memory for a request body")

// A BodyReader reads a body into memory.
type BodyReader struct {
	Stream           io.Reader
	Limit, Announced int
	Memory           BodyMemory   // nil: no limit
	Timed            func() error // sets the deadline; called before each minPerWait bytes; nil: the deadline is set elsewhere
}

// Read appends the body to dst, which must be empty, until the body ends or dst is longer than
// Limit. Memory grows with what has arrived, not with Announced.
func (in *BodyReader) Read(dst []byte) (_ []byte, err error) {
	if counted(cap(dst)) > 0 && !in.take(counted(cap(dst))) {
		dst = nil
	}
	if first := firstSize(in.Announced); cap(dst) < first {
		dst = make([]byte, 0, first)
	}
	due := 0
	for len(dst) <= in.Limit {
		if in.Timed != nil && len(dst) >= due {
			if err := in.Timed(); err != nil {
				return dst, err
			}
			due = len(dst) + minPerWait
		}
		if len(dst) == cap(dst) {
			if dst, err = in.grow(dst); err != nil {
				return dst, err
			}
		}
		n, err := in.Stream.Read(dst[len(dst):min(cap(dst), in.Limit+1)])
		dst = dst[:len(dst)+n]
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// grow returns dst with a larger capacity, up to the maximal size of the body.
func (in *BodyReader) grow(dst []byte) ([]byte, error) {
	most := in.Limit + 1
	if in.Announced > 0 {
		most = min(in.Announced, in.Limit) + 1 // plus one byte for the Read that finds the end
	}
	size := max(min(2*cap(dst), most), cap(dst)+1)
	if !in.take(counted(size) - counted(cap(dst))) {
		return dst, ErrNoRoom
	}
	return append(make([]byte, 0, size), dst...), nil
}

func (in *BodyReader) take(n int) bool { return in.Memory == nil || in.Memory.Take(n) }

// counted returns how many of n bytes must be reserved from Memory.
func counted(n int) int { return max(0, n-uncountedBytes) }

// firstSize returns the initial capacity.
func firstSize(announced int) int { return min(max(announced, 512), uncountedBytes-1) + 1 }
