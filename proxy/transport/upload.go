package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/proxy/panics"
)

// partSize is how much of a body at hand is written at once.
const partSize = 256 << 10

// maxPieces is how many pieces of a large body go up uncopied: each may cost a write.
const maxPieces = 64

// settling is how long an answer waits for its request's last write to return.
const settling = 100 * time.Millisecond

// An upload carries a body from the client to the upstream beside the reading
// of the answer.
type upload struct {
	x      *exchange
	rest   io.Reader // from the client's connection; nil when the body is at hand
	length int64     // of prefix and rest, or chunked
	done   chan struct{}

	// Set before done is closed.
	err   error  // why the body did not go up whole
	fault *Error // when that was the client's doing, or a bug

	last atomic.Bool // what is being written now is the end of it

	mu      sync.Mutex
	aborted bool
}

// sendBeside writes the head, and starts to write the body where the kernel does not
// take all of it at once: what is at hand, then rest.
func (x *exchange) sendBeside(head []byte, body [][]byte, rest io.Reader, length int64) error {
	if len(body) > maxPieces {
		body = [][]byte{bytes.Join(body, nil)}
	}
	now := body
	if rest != nil {
		now = nil
	}
	if err := x.conn.waitWrite(x.up.config.Idle); err != nil {
		return err
	}
	left, err := x.conn.begin(head, now)
	switch {
	case err != nil:
		return err
	case rest != nil:
		left = body
	case len(left) == 0:
		return x.conn.waitRead(x.up.config.FirstByte)
	}
	// No deadline for the answer before the body is up.
	if err := x.conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	u := &upload{x: x, rest: rest, length: length, done: make(chan struct{})}
	x.mu.Lock()
	x.upload = u
	x.mu.Unlock()
	panics.Go(x.client.guard.options.Panicked, func() { u.run(left) }, nil)
	return nil
}

func (u *upload) run(body [][]byte) {
	defer close(u.done)
	u.err = u.copy(body)
	x := u.x
	switch {
	case u.fault != nil:
		x.conn.drop() // the request can never be whole: whoever waits for the answer learns it now
		return
	case u.err != nil:
		u.expectAnswer(afterCut)
	default:
		u.expectAnswer(x.up.config.FirstByte)
	}
	x.watch()
}

// expectAnswer sets the clock for an answer that has not begun.
func (u *upload) expectAnswer(wait time.Duration) {
	u.x.mu.Lock()
	defer u.x.mu.Unlock()
	if !u.x.answered {
		// An error means that the connection is closed, and the reader knows.
		_ = u.x.conn.SetReadDeadline(time.Now().Add(wait))
	}
}

func (u *upload) copy(body [][]byte) (err error) {
	defer panics.Recover(u.x.client.guard.options.Panicked, func() { err, u.fault = errPanic, errPanic })
	if u.rest == nil {
		return u.copyWhole(body)
	}
	piece := u.x.up.pieces.Get().(*[]byte)
	defer give(&u.x.up.pieces, piece)
	sent := int64(0)
	for _, p := range body {
		n, err := u.pass(bytes.NewReader(p), *piece, sent, func() error { return nil })
		if err != nil {
			return err
		}
		sent += n
	}
	n, err := u.pass(u.rest, *piece, sent, u.waitForClient)
	if err != nil {
		return err
	}
	if sent += n; u.length == chunked && cutShort(u.x.client) || u.length != chunked && sent != u.length {
		return u.blame(io.ErrUnexpectedEOF)
	}
	if u.length == chunked {
		u.last.Store(true)
		return u.write([]byte("0\r\n\r\n"))
	}
	return nil
}

// copyWhole writes a body that is at hand, without copying it first. It comes in
// parts because each has the time that a write may take.
func (u *upload) copyWhole(body [][]byte) error {
	for i, piece := range body {
		for len(piece) > partSize {
			if err := u.write(piece[:partSize]); err != nil {
				return err
			}
			piece = piece[partSize:]
		}
		u.last.Store(i == len(body)-1)
		if err := u.write(piece); err != nil {
			return err
		}
	}
	return nil
}

// pass writes all of r to the upstream, after the sent bytes before it.
func (u *upload) pass(r io.Reader, piece []byte, sent int64, before func() error) (total int64, err error) {
	const room = len("7fff\r\n") // for the size line of a chunk
	end := len(piece) - len("\r\n")
	for {
		if err := before(); err != nil {
			return total, err
		}
		n, readErr := r.Read(piece[room:end])
		if n > 0 {
			total += int64(n)
			u.last.Store(sent+total == u.length)
			if err := u.write(u.framed(piece, room, n)); err != nil {
				return total, err
			}
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return total, nil
		case readErr != nil:
			return total, u.blame(readErr)
		}
	}
}

// framed returns the n bytes at piece[room:] as they go onto the wire.
func (u *upload) framed(piece []byte, room, n int) []byte {
	if u.length != chunked {
		return piece[room : room+n]
	}
	var size [8]byte
	line := append(strconv.AppendInt(size[:0], int64(n), 16), "\r\n"...)
	start := room - len(line)
	copy(piece[start:], line)
	copy(piece[room+n:], "\r\n")
	return piece[start : room+n+len("\r\n")]
}

func (u *upload) write(p []byte) error {
	if u.rest != nil && !u.x.followed() { // the client is not read from meanwhile
		u.x.watch()
		defer u.x.unwatch()
	}
	if err := u.x.conn.SetWriteDeadline(time.Now().Add(u.x.up.config.Idle)); err != nil {
		return err
	}
	_, err := u.x.conn.Conn.Write(p)
	return err
}

// waitForClient sets the clock for the client's next piece.
func (u *upload) waitForClient() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.aborted {
		return net.ErrClosed
	}
	err := u.x.client.waitRead(u.x.up.config.ClientRead)
	if err != nil {
		u.fault = u.x.client.bodyError(err)
	}
	return err
}

// abort ends the wait for the client, now and for good.
func (u *upload) abort() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.aborted = true
	if u.rest != nil {
		_ = u.x.client.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only
	}
}

// blame notes that the client's body is at fault.
func (u *upload) blame(err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.aborted {
		u.fault = u.x.client.bodyError(err)
	}
	return err
}

// finished reports whether the upload has ended, well or not.
func (u *upload) finished() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// settle waits a moment for an upload whose last write is under way: the answer
// to it can be here before the writer knows that it has written.
func (u *upload) settle() {
	if !u.last.Load() {
		return
	}
	moment := time.NewTimer(settling)
	defer moment.Stop()
	select {
	case <-u.done:
	case <-moment.C:
	}
}

// complete reports whether the whole body went up.
func (u *upload) complete() bool { return u.finished() && u.err == nil }

// bodyError tells a client that left from one that sends nonsense or too little. What
// its connection said weighs more than what fasthttp makes of it, which between the
// lines of a chunk is nonsense always. The cause's text is not kept: fasthttp quotes
// the client's bytes in it.
func (c *clientConn) bodyError(err error) *Error {
	if c.failed != nil {
		err = c.failed
	}
	var network net.Error
	switch {
	case errors.Is(err, errNoRoom):
		return errNoRoom
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{ClientLate, errors.New("request body too slow")}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, &network):
		return &Error{ClientGone, errors.New("client hung up inside its body")}
	}
	return &Error{ClientBody, errors.New("malformed request body")}
}
