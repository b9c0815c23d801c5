package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"

	"sidenote/proxy/answer"
	"sidenote/proxy/transport"
)

// Relay makes how pass the answer through c, after how.Filter. An answer that is not a stream is
// buffered in memory from room, so that the response head can report the result.
func (c *citationStage) Relay(ans *transport.Answer, how *transport.Relay, room transport.BodyMemory) {
	switch {
	case c == nil || ans.Status() != http.StatusOK || !gives(c.report): // or it was sent again without sources
		return
	case !answer.PlainCoding(string(ans.Header("Content-Encoding"))):
		c.Skip(answer.UnreadEncoded)
	case bytes.HasPrefix(ans.Header("Content-Type"), []byte("text/event-stream")):
		c.Streamed(how)
		return
	default:
		if body, ok := peek(c.CitationChecker, ans, room); ok {
			if checked := c.JSON(body); !bytes.Equal(checked, body) {
				how.Filter = func(w io.Writer) io.WriteCloser { return &replacement{w, checked} }
			}
		}
	}
	c.tell()
}

// Streamed makes how pass a stream through c, after how.Filter.
func (c *citationStage) Streamed(how *transport.Relay) {
	if c == nil {
		return
	}
	c.stream = true
	before := how.Filter
	how.Filter = func(w io.Writer) io.WriteCloser {
		checked := c.Filter(w)
		if before == nil {
			return checked
		}
		return &chain{before(checked), checked}
	}
}

// Whole checks an answer that is not a stream and was already read.
func (c *citationStage) Whole(body []byte) []byte {
	if c == nil {
		return body
	}
	defer c.tell()
	return c.JSON(body)
}

// peek reads a whole answer. It returns false if the answer is not to be checked.
func peek(c *answer.CitationChecker, ans *transport.Answer, room transport.BodyMemory) (body []byte, ok bool) {
	size := answer.MaxCitedJSON
	if n, err := strconv.Atoi(string(ans.Header("Content-Length"))); err == nil {
		size = n
	}
	if size > answer.MaxCitedJSON {
		c.Skip(answer.UnreadTooLarge)
		return nil, false
	}
	if !room.Take(2 * size) { // a changed answer is copied
		c.Skip(answer.UnreadMemory)
		return nil, false
	}
	body, whole := ans.Peek(size, nil)
	switch {
	case whole:
		return body, true
	case len(body) == size:
		c.Skip(answer.UnreadTooLarge)
	default:
		c.Skip(answer.UnreadCut)
	}
	return nil, false
}

// A replacement drops what is written to it and writes a fixed text instead.
type replacement struct {
	to   io.Writer
	text []byte
}

func (r *replacement) Write(p []byte) (int, error) { return len(p), nil }

func (r *replacement) Close() error {
	_, err := r.to.Write(r.text)
	return err
}

// A chain closes two writers; the first one writes to the second.
type chain struct {
	io.WriteCloser
	second io.Closer
}

func (c *chain) Close() error { return errors.Join(c.WriteCloser.Close(), c.second.Close()) }
