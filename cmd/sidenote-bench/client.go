package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// A client is one connection that reads answers as cheaply as can be, so that the
// machine's time is left to what is measured.
type client struct {
	conn   net.Conn
	br     *bufio.Reader
	status string // Sidenote-Status of the last answer, "" without one
	events int    // of the last answer
	last   byte   // of what has come of its body
}

// patience is how long anything may take.
const patience = time.Minute

func dial(addr string) (*client, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, br: bufio.NewReaderSize(conn, 4<<10)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// send sends a request. Its answer has to come while patience lasts.
func (c *client) send(request []byte) error {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.conn.Write(request)
	return err
}

// exchange sends a request and reads its answer to the end.
func (c *client) exchange(request []byte) error {
	if err := c.send(request); err != nil {
		return err
	}
	return c.answer()
}

// answer reads an answer to its end. What is not a 200 is an error.
func (c *client) answer() error {
	length, err := c.head()
	if err != nil {
		return err
	}
	c.events, c.last = 0, 0
	if length >= 0 {
		_, err := c.br.Discard(length)
		return err
	}
	for {
		more, err := c.chunk()
		if err != nil || !more {
			return err
		}
	}
}

// head reads the head of an answer and returns the length of its body, or -1 where
// that comes in chunks.
func (c *client) head() (length int, err error) {
	line, err := c.br.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
		line = bytes.Clone(line)
		rest, _ := c.br.Peek(c.br.Buffered())
		return 0, fmt.Errorf("answered %q %q", line, rest[:min(len(rest), 500)])
	}
	length = -1
	for {
		line, err := c.br.ReadSlice('\n')
		if err != nil || len(line) <= 2 {
			return length, err
		}
		switch {
		case hasPrefixFold(line, "content-length: "):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len("content-length: "):]))); err != nil {
				return 0, err
			}
		case hasPrefixFold(line, "sidenote-status: "):
			if status := bytes.TrimSpace(line[len("sidenote-status: "):]); c.status != string(status) {
				c.status = string(status)
			}
		}
	}
}

// chunk reads a chunk; the last one is no more.
func (c *client) chunk() (more bool, err error) {
	line, err := c.br.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	size, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
	if err != nil {
		return false, err
	}
	for left := int(size) + 2; left > 0; { //nolint:gosec // 31 bits
		piece, err := c.br.Peek(min(left, max(c.br.Buffered(), 1)))
		if err != nil {
			return false, err
		}
		c.take(piece[:min(len(piece), max(left-2, 0))]) // without the line end
		if _, err := c.br.Discard(len(piece)); err != nil {
			return false, err
		}
		left -= len(piece)
	}
	return size > 0, nil
}

// take counts the events that end in the next piece of a body.
func (c *client) take(piece []byte) {
	if len(piece) == 0 {
		return
	}
	c.events += bytes.Count(piece, []byte("\n\n"))
	if c.last == '\n' && piece[0] == '\n' {
		c.events++
	}
	c.last = piece[len(piece)-1]
}

// firstChunk reads an answer's head and its first chunk, and leaves the rest.
func (c *client) firstChunk(request []byte) error {
	if err := c.send(request); err != nil {
		return err
	}
	if _, err := c.head(); err != nil {
		return err
	}
	more, err := c.chunk()
	if err == nil && !more {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, c.conn.SetDeadline(time.Time{}))
}

func hasPrefixFold(line []byte, lower string) bool {
	return len(line) >= len(lower) && bytes.EqualFold(line[:len(lower)], []byte(lower))
}
