package redis

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// What a reply may claim. The library allocates whatever length it is told
// before a byte has come, so one false line could take the process's memory.
const (
	maxLine  = 64 << 10 // bytes of a line
	maxItems = 64 << 10 // elements of an array; a cluster's slots are the longest
)

var errNoRedis = errors.New("not the Redis protocol")

// A guard reads along with what Redis sends and cuts the connection at what is no
// reply, or one of a length that none of our commands is answered with. It
// follows the framing of RESP
// (https://redis.io/docs/latest/develop/reference/protocol-spec/): lines, some of
// which announce bytes that follow.
type guard struct {
	net.Conn
	maxBytes int64 // of a string

	line []byte // begun, without its end
	skip int64  // bytes of a string that are still to come
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
	n, err := g.Conn.Read(p)
	if lie := g.check(p[:n]); lie != nil {
		return 0, lie
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
	if len(g.line) == 0 {
		return errNoRedis
	}
	limit, follows := int64(maxItems), false
	switch kind := g.line[0]; {
	case strings.IndexByte("$=!", kind) >= 0: // strings
		limit, follows = g.maxBytes, true
	case strings.IndexByte("*~%>|", kind) >= 0: // arrays and the like
	case strings.IndexByte("+-:_#,(", kind) >= 0: // said in the line itself
		return nil
	default:
		return errNoRedis
	}
	text := bytes.TrimSuffix(g.line[1:], []byte("\r"))
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n > limit {
		return errNoRedis
	}
	if follows && n >= 0 {
		g.skip = n + int64(len("\r\n"))
	}
	return nil
}
