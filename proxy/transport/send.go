package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// maxCopied is the largest body that is copied behind its head. For larger ones the
	// kernel gathers the pieces, which for small ones would cost more.
	maxCopied = 16 << 10
	// maxInline is the largest body that is written at once before the answer is read.
	// What the kernel does not take at once of a larger one is written while an early
	// answer can already be read.
	maxInline = 64 << 10
	// afterCut is how long an answer may take once the upstream has stopped reading our
	// body: it has answered before that, or will not answer.
	afterCut = 5 * time.Second
)

// An upstreamCall is one request to the upstream and its answer, from before the
// connection is taken until it is given back. It is part of the client's connection, so
// the client's next call uses the same memory.
type upstreamCall struct {
	up     *Upstream
	ctx    *fasthttp.RequestCtx // valid until end is called
	client *clientConn
	isHead bool
	now    time.Duration // clock when it began, or when a connection was dialed for it
	stream stream        // the answer's body, once Relay has begun

	mu sync.Mutex
	progress
}

// A progress says how far an upstreamCall has got. upstreamCall.mu guards it.
type progress struct {
	gone      bool               // the client left
	ended     bool               // end was called
	answered  bool               // the head of the answer has been read
	conn      *conn              // nil before it is taken
	cancel    context.CancelFunc // ends a dial that is under way
	watched   bool               // between watch and unwatch
	stopWatch func()             // ends a watch that has a goroutine of its own; else nil
	upload    *upload            // nil if the whole body was sent before anything was read
}

// Send writes the client's request of ctx to the upstream and waits for the head of the
// answer. Call it from the handler's goroutine, once per request, or again after
// Response.Discard, and then with a whole body. When the client hangs up, the connection
// to the upstream is closed at once. Every error is an *Error.
//
// The caller must end every Response with exactly one call of Relay or Discard.
func (u *Upstream) Send(ctx *fasthttp.RequestCtx, r Request) (*Response, error) {
	client := clientOf(ctx)
	client.flush = u.config.ClientWrite
	x := &client.call
	x.up, x.ctx, x.client, x.isHead, x.now = u, ctx, client, ctx.IsHead(), clock()
	x.mu.Lock() // hangUp may be running for the call before this one
	x.progress = progress{}
	x.mu.Unlock()
	text := u.heads.Get().(*[]byte)
	response, err := x.send(r, text)
	if err != nil {
		putBuffer(&u.heads, text)
		return nil, x.fail(err)
	}
	return response, nil
}

func (x *upstreamCall) send(r Request, text *[]byte) (*Response, error) {
	rest, length := x.source(r)
	framed := length
	if r.Whole && r.Same && x.ctx.Request.Header.ContentLength() == chunked {
		framed, r.Body = chunked, oneChunk(r.Body)
		length = int64(size(r.Body))
	}
	head := x.head(r, framed)
	var ok bool
	if *text, ok = head.append((*text)[:0], &x.ctx.Request.Header); !ok {
		return nil, &Error{BadTarget, errors.New("request target without a path")}
	}
	held := rest == nil || length >= 0 && length <= prefetched
	if held || x.clientWatched() { // watchHangup must not run while the client's body is read
		x.watch()
	}
	inOne := held && length <= maxInline
	if err := x.connect(inOne); err != nil {
		return nil, err
	}
	var err error
	if inOne {
		err = x.sendInline(text, r.Body, rest, length)
	} else {
		err = x.sendWithUpload(*text, r.Body, rest, length)
	}
	if err != nil {
		return nil, err
	}
	return x.receive(text, head.upgrade)
}

// source returns the part of the body that is still to be read from the client, nil if
// there is none, and the length of the whole body.
func (x *upstreamCall) source(r Request) (rest io.Reader, length int64) {
	if r.Whole {
		return nil, int64(size(r.Body))
	}
	n := x.ctx.Request.Header.ContentLength()
	stream := x.ctx.RequestBodyStream()
	if stream == nil || n == 0 {
		return nil, 0
	}
	if n > 0 {
		return stream, int64(n)
	}
	return stream, chunked
}

// oneChunk returns body in the chunked framing, as a single chunk.
func oneChunk(body [][]byte) [][]byte {
	const last = "0\r\n\r\n"
	n := size(body)
	if n == 0 {
		return [][]byte{[]byte(last)}
	}
	framed := append(make([][]byte, 0, len(body)+2), fmt.Appendf(nil, "%x\r\n", n))
	return append(append(framed, body...), []byte("\r\n"+last))
}

// connect takes a connection from the pool or dials one, and fails if the client leaves
// meanwhile. If unchecked is set the caller must check a pooled one, see takeIdle.
func (x *upstreamCall) connect(unchecked bool) error {
	c := x.up.takeIdle(unchecked, x.now)
	if c == nil {
		ctx, cancel := context.WithCancel(x.up.life)
		defer cancel()
		x.mu.Lock()
		x.cancel = cancel
		gone := x.gone
		x.mu.Unlock()
		if gone {
			return net.ErrClosed
		}
		var err error
		if c, err = x.up.dial(ctx); err != nil {
			return err
		}
		x.now = clock()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancel, x.conn = nil, c
	if x.gone {
		return net.ErrClosed // the client has left, and nothing was written yet
	}
	return nil
}

// size is the number of bytes of a body in pieces.
func size(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// sendInline writes head and body at once.
func (x *upstreamCall) sendInline(text *[]byte, body [][]byte, rest io.Reader, length int64) error {
	if length <= maxCopied || x.up.tls != nil || len(body) > maxPieces {
		if err := x.join(text, body, rest, length); err != nil {
			return err
		}
		body = nil
	}
	for {
		c := x.conn
		if err := c.waitBoth(x.now, x.up.config.FirstByte); err != nil {
			return err
		}
		c.setRequest(*text, body)
		if !c.pooled || !x.up.canReadNow {
			return c.writeRequest()
		}
		err := c.sendPooled()
		if !errors.Is(err, errStale) {
			return err
		}
		x.mu.Lock()
		x.conn = nil
		x.mu.Unlock()
		x.up.release(c, false)
		if err := x.connect(true); err != nil {
			return err
		}
	}
}

// join appends the body to text. If there is a rest, fasthttp has read it already, so
// reading it does not wait.
func (x *upstreamCall) join(text *[]byte, body [][]byte, rest io.Reader, length int64) error {
	whole := len(*text) + int(length)
	*text = slices.Grow(*text, int(length))
	for _, piece := range body {
		*text = append(*text, piece...)
	}
	if rest == nil {
		return nil
	}
	from := len(*text)
	*text = (*text)[:whole]
	if _, err := io.ReadFull(rest, (*text)[from:]); err != nil {
		return x.client.bodyError(err)
	}
	stateOf(x.ctx).bodyRead = true
	return nil
}

// receive reads the head of the answer into text.
func (x *upstreamCall) receive(text *[]byte, upgrade bool) (*Response, error) {
	r := &stateOf(x.ctx).response
	*r = Response{x: x, text: text}
	var err error
	if *text, err = r.head.read(x.conn.br, (*text)[:0], x.isHead); err != nil {
		return nil, err
	}
	if r.head.status == 101 && !upgrade {
		return nil, malformed("another protocol, unasked")
	}
	x.mu.Lock()
	x.answered = true
	x.mu.Unlock()
	if x.upload != nil {
		x.upload.settle()
	}
	x.conn.idle = x.up.config.Idle
	r.body = newBody(x.conn.br, &r.head)
	if err = r.body.begin(); err != nil {
		return nil, err
	}
	return r, nil
}

// fail ends a call that got no answer and returns err as an *Error.
func (x *upstreamCall) fail(err error) error {
	x.end(false)
	err = x.classify(err, FirstByteTimeout, ClosedEarly)
	if ClassOf(err) == ClientGone { // do not serve further requests on this connection either
		x.ctx.SetConnectionClose()
	}
	return err
}

// classify returns err as an *Error. If the call was ended on purpose its connection was
// closed, so that reason counts more than the error of the connection.
func (x *upstreamCall) classify(err error, timeout, otherwise Class) error {
	x.mu.Lock()
	gone, upload := x.gone, x.upload
	x.mu.Unlock()
	var known *Error
	switch {
	case upload != nil && upload.fault != nil:
		return upload.fault
	case gone:
		return &Error{ClientGone, errors.New("client hung up")}
	case x.up.closed():
		return &Error{Closed, net.ErrClosed}
	case errors.As(err, &known):
		return known
	case errors.Is(err, errFraming):
		return &Error{BadResponse, err}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{timeout, err}
	}
	return &Error{otherwise, unexpectedEOF(err)}
}

// clientWatched reports whether the hangup watcher watches the client.
func (x *upstreamCall) clientWatched() bool { return x.client.token != 0 && !x.up.portable }

// watch makes a hang-up of the client end the call, until unwatch. Unless clientWatched
// is true, nobody may read from the client's connection meanwhile.
func (x *upstreamCall) watch() {
	x.mu.Lock()
	begins := !x.ended && !x.watched
	x.watched = x.watched || begins
	if begins && !x.clientWatched() {
		x.stopWatch = watchHangup(x.client, x.up.hungUp, x.client.guard.options.Panicked, x.hangUp)
	}
	x.mu.Unlock()
	if begins && x.clientWatched() {
		x.client.watch(x)
	}
}

// hangUp is called when the client has left, and cancels what is under way.
func (x *upstreamCall) hangUp() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.watched {
		return
	}
	x.gone = true
	if x.cancel != nil {
		x.cancel()
	}
	if x.conn != nil && !x.ended {
		x.conn.drop()
	}
}

// unwatch ends the watch. After it has returned hangUp does nothing.
func (x *upstreamCall) unwatch() {
	x.client.watching.Store(nil)
	x.mu.Lock()
	stop := x.stopWatch
	x.watched, x.stopWatch = false, nil
	x.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// abandon ends a call whose Response was not relayed or discarded. It does nothing if
// the answer is being relayed.
func (x *upstreamCall) abandon() {
	if x.client != nil && x.stream.x == nil {
		x.end(false)
	}
}

// end gives the connection back. It goes into the pool if keep is set, the client has
// not left and the whole body was sent. end waits for all goroutines that this call
// started. Further calls do nothing.
func (x *upstreamCall) end(keep bool) {
	x.mu.Lock()
	ended := x.ended
	x.ended = true
	upload := x.upload
	x.mu.Unlock()
	if ended {
		return
	}
	if upload != nil && !upload.finished() {
		keep = false
		x.conn.drop()
		upload.abort()
		<-upload.done
	}
	x.unwatch()
	if x.conn != nil {
		x.up.release(x.conn, keep && !x.gone && (upload == nil || upload.err == nil))
	}
}
