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

// prefetched is how much of a body of known length fasthttp reads before it calls the
// handler. Reading that much does not touch the connection.
const prefetched = 8 << 10

// maxKept is the capacity up to which a body's buffer is used again.
const maxKept = 1 << 20

// A requestState holds what this package knows of one request until the handler has
// returned.
type requestState struct {
	body     *[]byte // of ReadBody; nil if it has read none, or it is free again
	bodyRead bool    // the client's body was read to its end
	head     Head
	watch    *watch // nil before Watch
	reply    ReplyWriter
}

// ReadBody reads the body of ctx's request, if it has at most limit bytes. The client
// has the time wait for each 256 KiB, so a steady client may take longer in all and one
// that trickles is cut. If the body is longer, whole is false: pass body, the part that
// was read, on as Call.Body, and Do streams the rest after it. body is valid until
// the handler returns, or an answer to a request of which all was sent is relayed without
// Relay.KeepBody. Its
// memory beyond 64 KiB is taken from room, unless that is nil.
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
	client := clientOf(ctx)
	if state.body == nil {
		state.body = client.guard.bodies.Get().(*[]byte)
	}
	in := http1.BodyReader{Stream: stream, Limit: limit, Announced: length, Room: room}
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

// errNoRoom is returned if Room has no memory for a body.
var errNoRoom = &Error{NoRoom, errors.New("no room for a request's body")}

// cutShort reports whether the client has closed its side. fasthttp takes the end of a
// connection for the end of a body. If the body has a length, counting shows that;
// between two chunks only the connection itself can tell.
func cutShort(client net.Conn) (gone bool) {
	conn, ok := tcp.Of(client)
	return ok && conn.HungUp()
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
