package transport

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// prefetched is how much of a body of known length fasthttp holds before it
// calls the handler: up to here reading does not touch the connection.
const prefetched = 8 << 10

// stretch is how much of a body must arrive in each wait of ReadBody: 256 KiB in a
// minute is a twentieth of what a poor line carries.
const stretch = 256 << 10

// atHand is how much of a body is kept without asking for room.
const atHand = 64<<10 + 1

// A Room is memory for bodies.
type Room interface {
	// Take takes n bytes of it, all or none. Whoever reads bodies into it gives
	// them back when the handler has returned, or when Response.Sent.
	Take(n int) bool
}

// maxKept is the largest body buffer that is used again.
const maxKept = 1 << 20

// A requestState is what this package knows of one request, until
// the handler has returned.
type requestState struct {
	body     []byte // of ReadBody
	bodyRead bool   // the client's body was read to its end
	lent     bool   // body outlives the handler
	head     requestLines
	response Response // of the exchange, until Relay or Discard
}

// ReadBody reads the body of ctx's request, if it has at most limit bytes. It has
// wait for each 256 KiB of it, so that a steady client may take longer and one that
// trickles may not. whole is false when it has more: pass body, which is what was
// read so far, on as Request.Body, and the rest follows it untouched. body
// belongs to the request: it dies with the handler. What it takes beyond 64 KiB
// comes from room, unless that is nil. After an error, always an
// *Error, the connection will be closed; answer and return.
// Never use ctx.PostBody, which has no bound.
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
	in := intake{stream: stream, limit: limit, announced: length, room: room, client: clientOf(ctx), wait: wait}
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

// errNoRoom is that of a body for which there is none.
var errNoRoom = &Error{NoRoom, errors.New("no room for a request's body")}

// An intake reads a body into memory.
type intake struct {
	stream           io.Reader
	limit, announced int
	room             Room // nil has all
	client           *clientConn
	wait             time.Duration // of client for each stretch; 0: somebody else minds the time
}

// read appends the body to dst, which is empty, until its end or until dst is
// longer than limit. Memory grows with what arrived, not with what was announced.
func (in *intake) read(dst []byte) (_ []byte, err error) {
	if beyond(cap(dst)) > 0 && !in.take(beyond(cap(dst))) {
		dst = nil
	}
	if first := firstRoom(in.announced); cap(dst) < first {
		dst = make([]byte, 0, first)
	}
	due, timed := 0, in.wait > 0 && (in.announced < 0 || in.announced > prefetched)
	for len(dst) <= in.limit {
		if timed && len(dst) >= due {
			if err := in.client.SetReadDeadline(time.Now().Add(in.wait)); err != nil {
				return dst, err
			}
			due = len(dst) + stretch
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

// grow returns dst with room for more, but for no more than may come.
func (in *intake) grow(dst []byte) ([]byte, error) {
	most := in.limit + 1
	if in.announced > 0 {
		most = min(in.announced, in.limit) + 1 // for the read that finds the end
	}
	size := max(min(2*cap(dst), most), cap(dst)+1)
	if !in.take(beyond(size) - beyond(cap(dst))) {
		return dst, errNoRoom
	}
	return append(make([]byte, 0, size), dst...), nil
}

func (in *intake) take(n int) bool { return in.room == nil || in.room.Take(n) }

// beyond is how much of so many bytes is not at hand.
func beyond(n int) int { return max(0, n-atHand) }

// firstRoom is how much room a body has to begin with.
func firstRoom(announced int) int { return min(max(announced, 512), atHand-1) + 1 }

// cutShort reports whether the client has closed its side. To fasthttp the end
// of a connection looks like the end of a body. Short of a length that shows by
// counting; between two chunks only the connection itself tells.
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
