package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/http1"
)

// partSize is how much of a body in memory is written at once.
const partSize = 256 << 10

// maxPieces is how many pieces are written without joining them first: each may cost a write.
const maxPieces = 64

// settleTime is how long the relay of an answer waits for the last write of its request.
const settleTime = 100 * time.Millisecond

// An upload sends a body to the upstream in its own goroutine while the answer is read.
type upload struct {
	x      *upstreamCall
	rest   io.Reader // the part read from the client's connection; nil if the whole body is in memory
	length int64     // length of the whole body, or chunked
	done   chan struct{}

	// Set before done is closed.
	err   error  // why the body was not fully sent
	fault *Error // set if the reason was the client or a panic

	last atomic.Bool // the write in progress is the last one

	mu      sync.Mutex
	aborted bool
}

// sendWithUpload writes the head and as much of the body as the kernel takes at once. If anything
// of body or rest is left, it starts an upload.
func (x *upstreamCall) sendWithUpload(head []byte, body [][]byte, rest io.Reader, length int64) error {
	if len(body) > maxPieces {
		body = [][]byte{bytes.Join(body, nil)}
	}
	now := body
	if rest != nil {
		now = nil
	}
	if err := x.conn.WaitWrite(x.up.config.Idle); err != nil {
		return err
	}
	left, err := x.conn.startWrite(head, now)
	switch {
	case err != nil:
		return err
	case rest != nil:
		left = body
	case len(left) == 0:
		return x.conn.WaitRead(x.up.config.FirstByte)
	}
	// The answer has no deadline until the whole body is sent.
	if err := x.conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	u := &upload{x: x, rest: rest, length: length, done: make(chan struct{})}
	x.mu.Lock()
	x.upload = u
	x.mu.Unlock()
	panics.Go(x.up.config.Panicked, func() { u.run(left) }, nil)
	return nil
}

func (u *upload) run(body [][]byte) {
	defer close(u.done)
	u.err = u.copy(body)
	x := u.x
	switch {
	case u.fault != nil:
		x.conn.drop() // the request cannot be completed: this ends the wait for its answer
		return
	case u.err != nil:
		u.expectAnswer(afterCut)
	default:
		u.expectAnswer(x.up.config.FirstByte)
	}
	x.watchClient()
}

// expectAnswer sets the deadline for an answer that has not begun.
func (u *upload) expectAnswer(wait time.Duration) {
	u.x.mu.Lock()
	defer u.x.mu.Unlock()
	if !u.x.answered {
		// An error means that the connection is closed, which the reader notices itself.
		_ = u.x.conn.SetReadDeadline(time.Now().Add(wait))
	}
}

func (u *upload) copy(body [][]byte) (err error) {
	defer panics.Recover(u.x.up.config.Panicked, func() { err, u.fault = errPanic, errPanic })
	if u.rest == nil {
		return u.copyWhole(body)
	}
	piece := u.x.up.pieces.Get().(*[]byte)
	defer putBuffer(&u.x.up.pieces, piece)
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
	if sent += n; u.length == chunked && cutShort(u.x.head.client) || u.length != chunked && sent != u.length {
		return u.noteClientFault(io.ErrUnexpectedEOF)
	}
	if u.length == chunked {
		u.last.Store(true)
		return u.write([]byte(http1.LastChunk))
	}
	return nil
}

// copyWhole writes a body that is in memory without copying it. It writes in parts because the
// timeout applies to a single write.
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

// pass writes all of r to the upstream. sent bytes of the body were written already; before is
// called before each Read.
func (u *upload) pass(r io.Reader, piece []byte, sent int64, before func() error) (total int64, err error) {
	for {
		if err := before(); err != nil {
			return total, err
		}
		n, readErr := r.Read(http1.DataOf(piece))
		if n > 0 {
			total += int64(n)
			u.last.Store(sent+total == u.length)
			if err := u.write(u.framed(piece, n)); err != nil {
				return total, err
			}
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return total, nil
		case readErr != nil:
			return total, u.noteClientFault(readErr)
		}
	}
}

// framed returns the first n bytes of data in piece in the framing of the body.
func (u *upload) framed(piece []byte, n int) []byte {
	if u.length != chunked {
		return http1.DataOf(piece)[:n]
	}
	return http1.ChunkIn(piece, n)
}

func (u *upload) write(p []byte) error {
	if u.rest != nil && u.x.watch != nil { // the client's connection is not read during the write
		u.x.watch.begin()
		defer u.x.watch.pause()
	}
	if err := u.x.conn.SetWriteDeadline(time.Now().Add(u.x.up.config.Idle)); err != nil {
		return err
	}
	_, err := u.x.conn.Conn.Write(p)
	return err
}

// waitForClient sets the deadline for the client's next piece.
func (u *upload) waitForClient() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.aborted {
		return net.ErrClosed
	}
	err := u.x.head.client.WaitRead(u.x.up.config.ClientRead)
	if err != nil {
		u.fault = u.x.head.client.bodyError(err)
	}
	return err
}

// abort ends the wait for the client's body at once and prevents another one.
func (u *upload) abort() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.aborted = true
	if u.rest != nil {
		_ = u.x.head.client.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection
	}
}

// noteClientFault records that the upload failed because of the client's body.
func (u *upload) noteClientFault(err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.aborted {
		u.fault = u.x.head.client.bodyError(err)
	}
	return err
}

// finished reports whether the upload has ended, successfully or not.
func (u *upload) finished() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// settle waits up to settleTime for an upload whose last write is in progress: the answer can
// arrive before that write returns.
func (u *upload) settle() {
	if !u.last.Load() {
		return
	}
	moment := time.NewTimer(settleTime)
	defer moment.Stop()
	select {
	case <-u.done:
	case <-moment.C:
	}
}

// complete reports whether the whole body was sent.
func (u *upload) complete() bool { return u.finished() && u.err == nil }

// bodyError returns an Error that says whether the client left, was too slow, or sent a malformed
// body. The error of the connection takes precedence over err, since fasthttp reports every error
// between the lines of a chunk as malformed. The text of err is dropped, because fasthttp quotes
// the client's bytes in it.
func (c *clientConn) bodyError(err error) *Error {
	if c.readErr != nil {
		err = c.readErr
	}
	var network net.Error
	switch {
	case errors.Is(err, http1.ErrNoRoom):
		return errNoRoom
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{ClientLate, errors.New("request body too slow")}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, &network):
		return &Error{ClientGone, errors.New("client closed the connection while sending its body")}
	}
	return &Error{ClientBody, errors.New("malformed request body")}
}
