package transport

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// prefetched is how much of a body of known length fasthttp reads before it calls the
// handler. Reading that much does not touch the connection.
const prefetched = 8 << 10

// minPerWait is how much of a body must arrive in each wait of ReadBody, in bytes. 256
// KiB in a minute is a twentieth of what a slow line carries.
const minPerWait = 256 << 10

// uncountedBytes is how much of a body is kept without asking Room for memory.
const uncountedBytes = 64<<10 + 1

// A Room bounds the memory for bodies.
type Room interface {
	// Take takes n bytes, all or none. The caller of ReadBody gives them back when the
	// handler has returned, or once Answer.Sent is true.
	Take(n int) bool
}

// maxKept is the capacity up to which a body's buffer is used again.
const maxKept = 1 << 20

// A requestState holds what this package knows of one request until the handler has
// returned.
type requestState struct {
	body     []byte // of ReadBody
	bodyRead bool   // the client's body was read to its end
	head     Head
	watch    *watch // nil before Watch
	reply    ReplyWriter
}

// ReadBody reads the body of ctx's request, if it has at most limit bytes. The client
// has the time wait for each 256 KiB, so a steady client may take longer in all and one
// that trickles is cut. If the body is longer, whole is false: pass body, the part that
// was read, on as Call.Body, and Do streams the rest after it. body is valid until
// the handler returns. Its memory beyond 64 KiB is taken from room, unless that is nil.
// After an error, which is always an *Error, the connection will be closed: answer and
// return. Never use ctx.PostBody, which has no bound.
func ReadBody(ctx *fasthttp.RequestCtx, limit int, wait time.Duration, room Room) (body []byte, whole bool, err error) {
	stream, length := ctx.RequestBodyStream(), ctx.Request.Header.ContentLength()
	state := stateOf(ctx)
	switch {
	case stream == nil || length == 0:
		state.bodyRead = true
		return nil, true, nil
	case length > limit:
		return nil, false, nil
	}
	in := bodyReader{stream: stream, limit: limit, announced: length, room: room, client: clientOf(ctx), wait: wait}
	state.body, err = in.read(state.body[:0])
	switch {
	case err == nil:
		return state.body, false, nil
	case !errors.Is(err, io.EOF):
		return nil, false, clientOf(ctx).bodyError(err)
	case length > 0 && len(state.body) != length, length < 0 && cutShort(ctx.Conn()):
		return nil, false, clientOf(ctx).bodyError(io.ErrUnexpectedEOF)
	}
	state.bodyRead = true
	return state.body, true, nil
}

// errNoRoom is returned if Room has no memory for a body.
var errNoRoom = &Error{NoRoom, errors.New("no room for a request's body")}

// A bodyReader reads a body into memory.
type bodyReader struct {
	stream           io.Reader
	limit, announced int
	room             Room // nil: no bound
	client           *clientConn
	wait             time.Duration // for each minPerWait bytes from client; 0: the deadline is set elsewhere
}

// read appends the body to dst, which is empty, until the body ends or dst is longer
// than limit. Memory grows with what has arrived, not with what was announced.
func (in *bodyReader) read(dst []byte) (_ []byte, err error) {
	if counted(cap(dst)) > 0 && !in.take(counted(cap(dst))) {
		dst = nil
	}
	if first := firstSize(in.announced); cap(dst) < first {
		dst = make([]byte, 0, first)
	}
	due, timed := 0, in.wait > 0 && (in.announced < 0 || in.announced > prefetched)
	for len(dst) <= in.limit {
		if timed && len(dst) >= due {
			if err := in.client.SetReadDeadline(time.Now().Add(in.wait)); err != nil {
				return dst, err
			}
			due = len(dst) + minPerWait
		}
		if len(dst) == cap(dst) {
			if dst, err = in.grow(dst); err != nil {
				return dst, err
			}
		}
		n, err := in.stream.Read(dst[len(dst):min(cap(dst), in.limit+1)])
		dst = dst[:len(dst)+n]
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// grow returns dst with a larger capacity, but no larger than the body can get.
func (in *bodyReader) grow(dst []byte) ([]byte, error) {
	most := in.limit + 1
	if in.announced > 0 {
		most = min(in.announced, in.limit) + 1 // one more, for the Read that finds the end
	}
	size := max(min(2*cap(dst), most), cap(dst)+1)
	if !in.take(counted(size) - counted(cap(dst))) {
		return dst, errNoRoom
	}
	return append(make([]byte, 0, size), dst...), nil
}

func (in *bodyReader) take(n int) bool { return in.room == nil || in.room.Take(n) }

// counted returns how many of n bytes must be taken from Room.
func counted(n int) int { return max(0, n-uncountedBytes) }

// firstSize returns the capacity to begin with.
func firstSize(announced int) int { return min(max(announced, 512), uncountedBytes-1) + 1 }

// cutShort reports whether the client has closed its side. fasthttp takes the end of a
// connection for the end of a body. If the body has a length, counting shows that;
// between two chunks only the connection itself can tell.
func cutShort(client net.Conn) (gone bool) {
	tcp, ok := tcpOf(client)
	if !ok {
		return false
	}
	err := tcp.raw.Control(func(fd uintptr) { gone = hungUp(fd) })
	return gone || err != nil
}

// bodyWasRead reports whether nothing of the request's body is left on the
// connection.
func bodyWasRead(ctx *fasthttp.RequestCtx, known bool) bool {
	n := ctx.Request.Header.ContentLength()
	switch {
	case known, n == 0, n == -2:
		return true
	case n > 0 && n <= prefetched:
		_, err := io.Copy(io.Discard, ctx.RequestBodyStream())
		return err == nil
	}
	return false
}
