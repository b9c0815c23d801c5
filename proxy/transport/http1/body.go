package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
)

// A Body reads one message's body from a connection, and nothing after it. Read does not wait for
// more once it has something to return. It returns io.EOF only if the framing says that the body is
// complete, and an error that wraps io.ErrUnexpectedEOF if the connection ends before.
type Body struct {
	br      *bufio.Reader
	kind    BodyKind
	left    int64 // bytes left of the fixed body, or of the current chunk
	stage   chunkStage
	trailer []byte  // complete lines read so far
	peeked  *peeked // nil unless Peek has read bytes that Read has not returned
}

// A peeked holds the part of a body that Peek has read and Read has not returned yet.
type peeked struct {
	bytes []byte
	err   error // the end or error after bytes; nil: there is more to read
}

// spent reports whether p can be dropped once its bytes are returned, because the body can be read
// on from there or is at its end. It cannot if reading failed.
func (p *peeked) spent() bool { return p.err == nil || errors.Is(p.err, io.EOF) }

type chunkStage int

const (
	chunkSize    chunkStage = iota // at a size line
	chunkData                      // left bytes follow
	chunkEnd                       // at the line end after data
	chunkTrailer                   // after the last chunk
	chunkDone                      // also at the end of a body that ends with the connection
)

// NewBody returns the body that follows h in br.
func NewBody(br *bufio.Reader, h *AnswerHead) Body {
	return Body{br: br, kind: h.Kind, left: h.Length}
}

// Begin reads the size of the first chunk if it has arrived with the head. If it is malformed,
// there is still time to send the client an error.
func (b *Body) Begin() error {
	if b.kind != BodyChunked {
		return nil
	}
	if arrived, _ := b.br.Peek(b.br.Buffered()); bytes.IndexByte(arrived, '\n') < 0 {
		return nil
	}
	return b.readSize()
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case b.peeked != nil:
		return b.readPeeked(p)
	}
	switch b.kind {
	case BodyFixed:
		return b.readFixed(p)
	case BodyChunked:
		return b.readChunked(p)
	case BodyUntilClose:
		if b.Ended() {
			return 0, io.EOF
		}
		n, err := b.br.Read(p)
		b.seeEnd(err)
		return n, err
	}
	return 0, io.EOF
}

// readPeeked returns what Peek has read, and then the end or error after it. An error is returned
// again each time.
func (b *Body) readPeeked(p []byte) (n int, err error) {
	n = copy(p, b.peeked.bytes)
	b.peeked.bytes = b.peeked.bytes[n:]
	if n == 0 {
		err = b.peeked.err
	}
	if len(b.peeked.bytes) == 0 && b.peeked.spent() {
		b.peeked = nil
	}
	return n, err
}

// Peek reads until it has more than limit bytes, or until the body ends or fails. Later Reads
// return the same bytes and what follows. Memory is reserved from room, see BodyReader; if there is
// none Peek stops reading.
func (b *Body) Peek(limit, announced int, room BodyMemory) (seen []byte, whole bool) {
	if b.Ended() {
		return nil, true
	}
	if b.peeked == nil {
		in := BodyReader{Stream: b, Limit: limit, Announced: announced, Memory: room}
		read, err := in.Read(nil)
		if errors.Is(err, ErrNoRoom) {
			err = nil // the rest of the body can still be read
		}
		b.peeked = &peeked{read, err}
	}
	seen = b.peeked.bytes
	return seen[:min(len(seen), limit)], len(seen) <= limit && errors.Is(b.peeked.err, io.EOF)
}

// DropPeeked drops the bytes that Peek has read, but keeps an error that it got.
func (b *Body) DropPeeked() {
	if b.peeked != nil && b.peeked.spent() {
		b.peeked = nil
	}
}

// Wait waits until Read can return something without waiting; only for a trailer Read may still
// wait. Between two chunks it waits for the size of the next one, since the end of a chunk has
// usually arrived with its data.
func (b *Body) Wait() error {
	if b.peeked != nil || b.Ended() {
		return nil
	}
	if err := b.toData(); err != nil {
		return UnexpectedEOF(err)
	}
	if b.br.Buffered() > 0 || b.stage == chunkTrailer {
		return nil
	}
	_, err := b.br.Peek(1)
	if b.kind != BodyUntilClose {
		return UnexpectedEOF(err)
	}
	b.seeEnd(err)
	if b.Ended() {
		return nil
	}
	return err
}

// toData reads the lines between the data of two chunks.
func (b *Body) toData() (err error) {
	for b.kind == BodyChunked && err == nil {
		switch b.stage {
		case chunkSize:
			err = b.readSize()
		case chunkEnd:
			err = b.readEnd()
		default:
			return nil
		}
	}
	return err
}

// seeEnd records the end of the connection as the end of the body.
func (b *Body) seeEnd(err error) {
	if err == io.EOF { //nolint:errorlint // bufio returns it as it is
		b.stage = chunkDone
	}
}

// Ended reports whether all of the body was returned, as far as is known without reading more.
func (b *Body) Ended() bool { return b.peeked == nil && b.atEnd() }

// atEnd reports whether all of the body was read from the connection; Peek may still hold some of
// it.
func (b *Body) atEnd() bool {
	switch b.kind {
	case BodyFixed:
		return b.left == 0
	case BodyChunked, BodyUntilClose:
		return b.stage == chunkDone
	case BodyNone:
		return true
	}
	return false
}

// Ready reports whether the next Read returns without waiting.
func (b *Body) Ready() bool {
	switch {
	case b.peeked != nil:
		return len(b.peeked.bytes) > 0 // do not hold the head of the answer back for an error
	case b.Ended():
		return true
	case b.kind != BodyChunked, b.stage == chunkData, b.stage == chunkTrailer:
		return b.br.Buffered() > 0
	}
	head, _ := b.br.Peek(b.br.Buffered())
	i := bytes.IndexByte(head, '\n')
	if i == 0 || i == 1 { // the end of the previous chunk
		head = head[i+1:]
		i = bytes.IndexByte(head, '\n')
	}
	return i >= 0 && i+1 < len(head)
}

func (b *Body) readFixed(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.br.Read(p)
	b.left -= int64(n)
	return n, UnexpectedEOF(err)
}

// readChunked fills p from the chunks that have arrived.
func (b *Body) readChunked(p []byte) (n int, err error) {
	for n < len(p) {
		if n > 0 && !b.Ready() {
			return n, nil
		}
		switch b.stage {
		case chunkSize:
			err = b.readSize()
		case chunkData:
			var m int
			m, err = b.br.Read(p[n:min(int64(len(p)), int64(n)+b.left)])
			n += m
			if b.left -= int64(m); b.left == 0 {
				b.stage = chunkEnd
			}
		case chunkEnd:
			err = b.readEnd()
		case chunkTrailer:
			if n > 0 {
				return n, nil // data does not wait for the trailer
			}
			err = b.readTrailer()
		case chunkDone:
			return n, io.EOF
		}
		if err != nil {
			return n, UnexpectedEOF(err)
		}
	}
	return n, nil
}

// readSize reads "1a;ext\r\n". The line must end in CRLF: servers differ in how they read a bare
// line feed inside an extension.
func (b *Body) readSize() error {
	line, err := b.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return Malformed("chunk size line too long")
	}
	if err != nil {
		return err
	}
	digits, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if i := bytes.IndexByte(digits, ';'); i >= 0 {
		digits = digits[:i]
	}
	digits = bytes.TrimRight(digits, " \t")
	size, valid := parseHex(digits)
	if !ok || !valid {
		return Malformed("chunk size")
	}
	b.left, b.stage = size, chunkData
	if size == 0 {
		b.stage = chunkTrailer
	}
	return nil
}

func (b *Body) readEnd() error {
	end, err := b.br.Peek(2)
	if err != nil {
		return err
	}
	if end[0] != '\r' || end[1] != '\n' {
		return Malformed("chunk longer than its size")
	}
	_, err = b.br.Discard(2)
	b.stage = chunkSize
	return err
}

// readTrailer reads and keeps the lines after the last chunk.
func (b *Body) readTrailer() error {
	budget, start := maxHead, len(b.trailer) // start: offset of the current line
	for {
		line, err := b.br.ReadSlice('\n')
		part := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !part {
			return err
		}
		if budget -= len(line); budget < 0 {
			return Malformed("more than %d bytes of trailer", maxHead)
		}
		if string(line) == "\r\n" && start == len(b.trailer) {
			b.stage = chunkDone
			return nil
		}
		if b.trailer = append(b.trailer, line...); !part {
			start = len(b.trailer)
		}
	}
}

// parseHex parses 1 to 15 hexadecimal digits.
func parseHex(digits []byte) (n int64, ok bool) {
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		n = n<<4 | int64(c)
	}
	return n, len(digits) > 0 && len(digits) <= 15
}

// UnexpectedEOF turns io.EOF, which is unexpected inside a body, into io.ErrUnexpectedEOF.
func UnexpectedEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // bufio returns it as it is
		return io.ErrUnexpectedEOF
	}
	return err
}

// HasTrailer reports whether trailer lines have been read.
func (b *Body) HasTrailer() bool { return len(b.trailer) > 0 }

// Size returns the total length of pieces.
func Size(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// A buffer for a piece of a body has room for framing around the data.
const (
	LastChunk = "0\r\n\r\n"             // ends a body without a trailer
	FrameRoom = len("7fff\r\n")         // before the data: the size line of a chunk
	frameEnd  = len("\r\n" + LastChunk) // after the data
)

// DataOf returns the part of a buffer that is for data.
func DataOf(piece []byte) []byte { return piece[FrameRoom : len(piece)-frameEnd] }

// ChunkIn writes the framing of a chunk around the first n bytes of data in piece, and returns the
// chunk.
func ChunkIn(piece []byte, n int) []byte {
	var size [8]byte
	line := append(strconv.AppendInt(size[:0], int64(n), 16), "\r\n"...)
	start := FrameRoom - len(line)
	copy(piece[start:], line)
	copy(piece[FrameRoom+n:], "\r\n")
	return piece[start : FrameRoom+n+len("\r\n")]
}

// forbiddenTrailer reports whether a line of that name is allowed in a head but not in a trailer
// (RFC 9110 §6.5.1).
func forbiddenTrailer(name []byte) bool { return Is(name, "date") || Is(name, "set-cookie") }

// RelayedTrailer returns the lines of the upstream's trailer that are relayed: those allowed in a
// trailer and not replaced. Lines with the same name are joined.
func (b *Body) RelayedTrailer(replace []Header) (lines []byte) {
	type field struct{ name, values []byte }
	var fields []field
	for line, rest, ok := CutLine(b.trailer); ok; line, rest, ok = CutLine(rest) {
		name, value, ok := CutField(line)
		if !ok || !ValidToken(name) || !ValidText(value) || KindOf(name).HopByHop() || KindOf(name) == LengthName ||
			Replaced(replace, name) >= 0 || forbiddenTrailer(name) {
			continue
		}
		same := slices.IndexFunc(fields, func(f field) bool { return bytes.EqualFold(f.name, name) })
		if same >= 0 {
			fields[same].values = slices.Concat(fields[same].values, []byte(", "), value)
		} else {
			fields = append(fields, field{name, value})
		}
	}
	for _, f := range fields {
		lines = AppendLine(lines, string(f.name), string(f.values))
	}
	return lines
}
