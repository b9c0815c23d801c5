package redis

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"syscall"
)

// Limits of a reply. The library allocates any announced length before the bytes arrive, so one
// wrong line could exhaust the memory; nested arrays could do so with a few bytes each, or exhaust
// the stack.
const (
	maxLine  = 64 << 10  // bytes of a line
	maxItems = 64 << 10  // elements of an array; the longest legitimate one is a cluster's slots
	maxTotal = 512 << 10 // elements of all arrays in a reply
	maxDepth = 8         // nesting of arrays
)

var errNoRedis = errors.New("not the Redis protocol")

// A guard parses what Redis sends, and closes the connection at anything that is not a reply, or
// is longer than any reply to our commands. It parses the framing of RESP2
// (https://redis.io/docs/latest/develop/reference/protocol-spec/): lines, some of which announce
// what follows.
type guard struct {
	net.Conn
	maxBytes int64 // longest string

	line      []byte  // the current line, without its end
	skip      int64   // remaining bytes of a string
	arrays    []int64 // remaining elements of each incomplete array
	total     int64   // elements of all arrays in this reply
	malformed error   // error of a malformed reply
}

// guarded wraps conn. Before the library uses an idle connection, it checks the socket and drops a
// connection that was closed or holds unexpected bytes. That needs access to the socket, so the
// wrapper provides it if conn does.
func guarded(conn net.Conn, maxBytes int64) net.Conn {
	g := guard{Conn: conn, maxBytes: maxBytes}
	if socket, ok := conn.(syscall.Conn); ok {
		return &socketGuard{g, socket}
	}
	return &g
}

type socketGuard struct {
	guard
	syscall.Conn
}

func (g *guard) Read(p []byte) (int, error) {
	if g.malformed != nil {
		return 0, g.malformed // the library continues after some errors
	}
	n, err := g.Conn.Read(p)
	if g.malformed = g.check(p[:n]); g.malformed != nil {
		return 0, g.malformed
	}
	return n, err
}

// check parses the next bytes of the replies.
func (g *guard) check(b []byte) error {
	for len(b) > 0 {
		if g.skip > 0 {
			n := min(g.skip, int64(len(b)))
			g.skip -= n
			b = b[n:]
			continue
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			end = len(b)
		}
		if len(g.line)+end > maxLine {
			return errNoRedis
		}
		g.line = append(g.line, b[:end]...)
		if end == len(b) {
			return nil
		}
		b = b[end+1:]
		if err := g.announced(); err != nil {
			return err
		}
		g.line = g.line[:0]
	}
	return nil
}

// announced handles a complete line, which may announce a string or an array.
func (g *guard) announced() error {
	line, whole := bytes.CutSuffix(g.line, []byte("\r"))
	if !whole || len(line) == 0 {
		return errNoRedis
	}
	kind := line[0]
	if kind == '+' || kind == '-' || kind == ':' { // the line is the whole value
		g.ended()
		return nil
	}
	n, err := strconv.ParseInt(string(line[1:]), 10, 64)
	switch {
	case err != nil || n < -1: // -1 is nil
		return errNoRedis
	case kind == '$':
		return g.string(n)
	case kind == '*':
		return g.array(n)
	}
	return errNoRedis
}

// string handles the header of a string of n bytes.
func (g *guard) string(n int64) error {
	if n > g.maxBytes {
		return errNoRedis
	}
	if n >= 0 {
		g.skip = n + int64(len("\r\n"))
	}
	g.ended()
	return nil
}

// array handles the header of an array of n elements.
func (g *guard) array(n int64) error {
	if n <= 0 {
		g.ended()
		return nil
	}
	if len(g.arrays) == 0 {
		g.total = 0
	}
	if g.total += n; n > maxItems || g.total > maxTotal || len(g.arrays) == maxDepth {
		return errNoRedis
	}
	g.arrays = append(g.arrays, n)
	return nil
}

// ended counts a complete value in its array; if that completes the array, it does the same for
// the enclosing one.
func (g *guard) ended() {
	for len(g.arrays) > 0 {
		last := &g.arrays[len(g.arrays)-1]
		if *last--; *last > 0 {
			return
		}
		g.arrays = g.arrays[:len(g.arrays)-1]
	}
}
