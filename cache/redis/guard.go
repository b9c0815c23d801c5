package redis

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"syscall"
)

// What a reply may claim. The library allocates whatever length it is told
// before a byte has come, so one false line could take the process's memory;
// arrays in arrays would take it a line each, or the stack.
const (
	maxLine  = 64 << 10  // bytes of a line
	maxItems = 64 << 10  // elements of an array; a cluster's slots are the longest
	maxTotal = 512 << 10 // elements of all arrays in a reply
	maxDepth = 8         // of arrays in arrays
)

var errNoRedis = errors.New("not the Redis protocol")

// A guard reads along with what Redis sends and cuts the connection at what is no
// reply, or one of a length that none of our commands is answered with. It
// follows the framing of RESP2
// (https://redis.io/docs/latest/develop/reference/protocol-spec/): lines, some of
// which announce what follows.
type guard struct {
	net.Conn
	maxBytes int64 // of a string

	line  []byte  // begun, without its end
	skip  int64   // bytes of a string that are still to come
	open  []int64 // elements still to come of each array begun
	total int64   // elements of all arrays in this reply
	lie   error   // what was read before was no reply
}

// guarded wraps conn. The library looks at the socket itself before it uses an
// idle connection, and drops one that was closed or holds bytes that nobody asked
// for, where the connection shows its socket.
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
	if g.lie != nil {
		return 0, g.lie // the library does not end at every first error
	}
	n, err := g.Conn.Read(p)
	if g.lie = g.check(p[:n]); g.lie != nil {
		return 0, g.lie
	}
	return n, err
}

// check follows the reply through its next bytes.
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

// announced takes in what the line says of what follows it.
func (g *guard) announced() error {
	line, whole := bytes.CutSuffix(g.line, []byte("\r"))
	if !whole || len(line) == 0 {
		return errNoRedis
	}
	kind := line[0]
	if kind == '+' || kind == '-' || kind == ':' { // said in the line itself
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

// string takes in the head of a string of n bytes.
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

// array takes in the head of an array of n elements.
func (g *guard) array(n int64) error {
	if n <= 0 {
		g.ended()
		return nil
	}
	if len(g.open) == 0 {
		g.total = 0
	}
	if g.total += n; n > maxItems || g.total > maxTotal || len(g.open) == maxDepth {
		return errNoRedis
	}
	g.open = append(g.open, n)
	return nil
}

// ended counts a value out of the arrays that it is the last of.
func (g *guard) ended() {
	for len(g.open) > 0 {
		last := &g.open[len(g.open)-1]
		if *last--; *last > 0 {
			return
		}
		g.open = g.open[:len(g.open)-1]
	}
}
