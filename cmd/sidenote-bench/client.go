package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"
)

// A client is one connection. It reads answers as cheaply as possible, to leave the machine's time
// to what is measured.
type client struct {
	conn   net.Conn
	br     *bufio.Reader
	status string // Sidenote-Status of the last answer, or ""
	events int    // in the last answer
	last   byte   // last byte of its body so far
	buffer []byte // for chunked bodies

	request []byte // reused by fresh
}

// patience limits each step.
const patience = time.Minute

func dial(addr string) (*client, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, br: bufio.NewReaderSize(conn, 4<<10), buffer: make([]byte, 4<<10)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// send sends a request. Its answer must arrive within patience.
func (c *client) send(request []byte) error {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.conn.Write(request)
	return err
}

// fresh returns a request with the n-th new question.
func (c *client) fresh(request []byte, n int64) []byte {
	at := bytes.Index(request, []byte(newDigits))
	c.request = append(c.request[:0], request...)
	for i := at + len(newDigits) - 1; i >= at; i-- {
		c.request[i] = byte('0' + n%10)
		n /= 10
	}
	return c.request
}

// exchange sends a request and reads the whole answer.
func (c *client) exchange(request []byte) error {
	if err := c.send(request); err != nil {
		return err
	}
	return c.answer()
}

// answer reads a whole answer. A status other than 200 is an error.
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
	if _, err := io.CopyBuffer(c, httputil.NewChunkedReader(c.br), c.buffer); err != nil {
		return err
	}
	_, err = c.br.Discard(len("\r\n"))
	return err
}

// head reads the head of an answer and returns the length of its body, or -1 if it is chunked.
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

// Write takes the next piece of a body.
func (c *client) Write(piece []byte) (int, error) {
	c.take(piece)
	return len(piece), nil
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

// firstChunk reads the head and the beginning of the body of an answer, and leaves the rest.
func (c *client) firstChunk(request []byte) error {
	if err := c.send(request); err != nil {
		return err
	}
	if _, err := c.head(); err != nil {
		return err
	}
	_, err := httputil.NewChunkedReader(c.br).Read(c.buffer)
	return errors.Join(err, c.conn.SetDeadline(time.Time{}))
}

func hasPrefixFold(line []byte, lower string) bool {
	return len(line) >= len(lower) && bytes.EqualFold(line[:len(lower)], []byte(lower))
}
