package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// A body reads one message's body off a connection, and not one byte more.
// Read never waits for more once it holds something, ends with io.EOF only
// where the framing says that the body is whole, and with an error that wraps
// io.ErrUnexpectedEOF where the connection ended before.
type body struct {
	br      *bufio.Reader
	kind    bodyKind
	left    int64 // of the fixed body, or of the current chunk
	stage   chunkStage
	trailer []byte // whole lines, as far as they were read
	ahead   *ahead // nil unless Peek has read what Read has not returned
}

// An ahead is what of a body was read before its time.
type ahead struct {
	bytes []byte
	err   error // what came after bytes; nil: there is more to read
}

// spent reports whether the body itself says what follows bytes.
func (a *ahead) spent() bool { return a.err == nil || errors.Is(a.err, io.EOF) }

type chunkStage int

const (
	chunkSize    chunkStage = iota // at a size line
	chunkData                      // left bytes to come
	chunkEnd                       // at the line end after data
	chunkTrailer                   // after the last chunk
	chunkDone                      // also: a body until the connection's end is whole
)

func newBody(br *bufio.Reader, h *answerHead) body {
	return body{br: br, kind: h.kind, left: h.length}
}

// begin reads the size of the first chunk if it has come with the head: where it is
// malformed, the client can be told yet.
func (b *body) begin() error {
	if b.kind != bodyChunked {
		return nil
	}
	if arrived, _ := b.br.Peek(b.br.Buffered()); bytes.IndexByte(arrived, '\n') < 0 {
		return nil
	}
	return b.readSize()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case b.ahead != nil:
		return b.readAhead(p)
	}
	switch b.kind {
	case bodyFixed:
		return b.readFixed(p)
	case bodyChunked:
		return b.readChunked(p)
	case bodyUntilClose:
		if b.ended() {
			return 0, io.EOF
		}
		n, err := b.br.Read(p)
		b.seeEnd(err)
		return n, err
	}
	return 0, io.EOF
}

// readAhead returns what Peek has read, and then what came after it. An error
// stays: there is no going on after it.
func (b *body) readAhead(p []byte) (n int, err error) {
	n = copy(p, b.ahead.bytes)
	b.ahead.bytes = b.ahead.bytes[n:]
	if n == 0 {
		err = b.ahead.err
	}
	if len(b.ahead.bytes) == 0 && b.ahead.spent() {
		b.ahead = nil
	}
	return n, err
}

// peek reads until more than limit bytes are ahead, or until the body ends or
// fails, which the next Reads will show as if nobody had peeked.
func (b *body) peek(limit, announced int) (seen []byte, whole bool) {
	if b.ended() {
		return nil, true
	}
	if b.ahead == nil {
		in := intake{stream: b, limit: limit, announced: announced}
		read, err := in.read(nil)
		b.ahead = &ahead{read, err}
	}
	seen = b.ahead.bytes
	return seen[:min(len(seen), limit)], len(seen) <= limit && errors.Is(b.ahead.err, io.EOF)
}

// dropAhead forgets what Peek has read, but not what went wrong with it.
func (b *body) dropAhead() {
	if b.ahead != nil && b.ahead.spent() {
		b.ahead = nil
	}
}

// wait returns when Read has something to do without waiting for it, but perhaps
// for a trailer. Between two chunks it is the size of the next one that is waited
// for: the end of the one before has mostly come with it.
func (b *body) wait() error {
	if b.ahead != nil || b.ended() {
		return nil
	}
	if err := b.toData(); err != nil {
		return inside(err)
	}
	if b.br.Buffered() > 0 || b.stage == chunkTrailer {
		return nil
	}
	_, err := b.br.Peek(1)
	if b.kind != bodyUntilClose {
		return inside(err)
	}
	b.seeEnd(err)
	if b.ended() {
		return nil
	}
	return err
}

// toData reads what stands between two chunks.
func (b *body) toData() (err error) {
	for b.kind == bodyChunked && err == nil {
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

// seeEnd notes the end of a connection where it is the end of the body.
func (b *body) seeEnd(err error) {
	if err == io.EOF { //nolint:errorlint // bufio returns it as it is
		b.stage = chunkDone
	}
}

// ended reports whether all of the body was returned, as far as that can be
// said without reading.
func (b *body) ended() bool { return b.ahead == nil && b.atEnd() }

// atEnd is ended without regard to what Peek holds.
func (b *body) atEnd() bool {
	switch b.kind {
	case bodyFixed:
		return b.left == 0
	case bodyChunked, bodyUntilClose:
		return b.stage == chunkDone
	case bodyNone:
		return true
	}
	return false
}

// ready reports whether the next Read returns without waiting.
func (b *body) ready() bool {
	switch {
	case b.ahead != nil:
		return len(b.ahead.bytes) > 0 // a head does not wait for what went wrong
	case b.ended():
		return true
	case b.kind != bodyChunked, b.stage == chunkData, b.stage == chunkTrailer:
		return b.br.Buffered() > 0
	}
	head, _ := b.br.Peek(b.br.Buffered())
	i := bytes.IndexByte(head, '\n')
	if i == 0 || i == 1 { // the end of the chunk before
		head = head[i+1:]
		i = bytes.IndexByte(head, '\n')
	}
	return i >= 0 && i+1 < len(head)
}

func (b *body) readFixed(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.br.Read(p)
	b.left -= int64(n)
	return n, inside(err)
}

// readChunked fills p from as many chunks as have arrived.
func (b *body) readChunked(p []byte) (n int, err error) {
	for n < len(p) {
		if n > 0 && !b.ready() {
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
				return n, nil // what is here must not wait for the trailer
			}
			err = b.readTrailer()
		case chunkDone:
			return n, io.EOF
		}
		if err != nil {
			return n, inside(err)
		}
	}
	return n, nil
}

// readSize reads "1a;ext\r\n". Lines end in CRLF here, or they are refused: a
// bare line feed inside an extension is where readers begin to differ.
func (b *body) readSize() error {
	line, err := b.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return malformed("chunk size line too long")
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
		return malformed("chunk size")
	}
	b.left, b.stage = size, chunkData
	if size == 0 {
		b.stage = chunkTrailer
	}
	return nil
}

func (b *body) readEnd() error {
	end, err := b.br.Peek(2)
	if err != nil {
		return err
	}
	if end[0] != '\r' || end[1] != '\n' {
		return malformed("chunk longer than its size")
	}
	_, err = b.br.Discard(2)
	b.stage = chunkSize
	return err
}

// readTrailer keeps the lines after the last chunk.
func (b *body) readTrailer() error {
	budget, start := maxHead, len(b.trailer) // of the current line
	for {
		line, err := b.br.ReadSlice('\n')
		part := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !part {
			return err
		}
		if budget -= len(line); budget < 0 {
			return malformed("more than %d bytes of trailer", maxHead)
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

// inside turns the end of a connection into what it is inside a body.
func inside(err error) error {
	if err == io.EOF { //nolint:errorlint // bufio returns it as it is
		return io.ErrUnexpectedEOF
	}
	return err
}
