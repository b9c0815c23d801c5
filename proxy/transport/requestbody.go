package transport

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport/http1"
	"sidenote/proxy/transport/tcp"
)

// prefetched is how much of a body of known length fasthttp reads before it calls the handler.
// Reading that does not touch the connection.
const prefetched = 8 << 10

// maxKept is the capacity of the largest body buffer that is reused.
const maxKept = 1 << 20

// A requestState holds the state of one request until the handler has returned.
type requestState struct {
	body     *[]byte // memory of ReadBody; nil if it was not called, or the memory was freed
	bodyRead bool    // the client's body was read to its end
	head     Head
	watch    *watch // nil before Watch
	reply    ReplyWriter
}

// ReadBody reads the body of ctx's request if it has at most limit bytes. The client gets wait for
// each 256 KiB, so a steady client may take longer in total and one that trickles is cut. If the
// body is longer, whole is false: pass body, the part that was read, on as Call.Body, and Do
// streams the rest after it. body is valid until the handler returns, or until an answer is relayed
// without Relay.KeepBody after the whole request was sent. Its memory beyond 64 KiB is reserved
// from room, unless that is nil. After an error, always an *Error, the connection will be closed:
// answer and return. Never use ctx.PostBody, which has no limit.
func ReadBody(ctx *fasthttp.RequestCtx, limit int, wait time.Duration, room BodyMemory) (body []byte, whole bool, err error) {
	stream, length := ctx.RequestBodyStream(), ctx.Request.Header.ContentLength()
	state := stateOf(ctx)
	switch {
	case stream == nil || length == 0:
		state.bodyRead = true
		return nil, true, nil
	case length > limit:
		return nil, false, nil
	}
	client := clientOf(ctx)
	if state.body == nil {
		state.body = client.guard.bodies.Get().(*[]byte)
	}
	in := http1.BodyReader{Stream: stream, Limit: limit, Announced: length, Memory: room}
	if wait > 0 && (length < 0 || length > prefetched) {
		in.Timed = func() error { return client.SetReadDeadline(time.Now().Add(wait)) }
	}
	body, err = in.Read((*state.body)[:0])
	*state.body = body
	switch {
	case err == nil:
		return body, false, nil
	case !errors.Is(err, io.EOF):
		return nil, false, client.bodyError(err)
	case length > 0 && len(body) != length, length < 0 && cutShort(client):
		return nil, false, client.bodyError(io.ErrUnexpectedEOF)
	}
	state.bodyRead = true
	return body, true, nil
}

// freeBody frees the memory of ReadBody.
func (c *clientConn) freeBody() {
	if body := c.state.body; body != nil && cap(*body) <= maxKept {
		putBuffer(&c.guard.bodies, body)
	}
	c.state.body = nil
}

// errNoRoom is returned if BodyMemory has no memory for a body.
var errNoRoom = &Error{NoRoom, errors.New("no room for a request's body")}

// cutShort reports whether the client has closed its side. fasthttp treats the end of a connection
// as the end of a body. If the length is known, counting reveals that; between two chunks only the
// connection can tell.
func cutShort(client net.Conn) (gone bool) {
	conn, ok := tcp.Of(client)
	return ok && conn.HungUp()
}

// bodyWasRead reports whether the request's body was read from the connection to its end.
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
