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
	// joined is the largest body that is copied behind its head: to have the kernel
	// gather its pieces would cost more.
	joined = 16 << 10
	// inline is the largest body that is written in one go before the answer is
	// read. What the kernel does not take at once of a larger one goes up beside the
	// reading of an early answer.
	inline = 64 << 10
	// afterCut is how long an answer may take once the upstream stopped taking
	// our body: it answered before it did, or not at all.
	afterCut = 5 * time.Second
)

// An exchange is one request and its answer, from before the connection is
// taken until it is given back. The next one of the same client uses its memory.
type exchange struct {
	up     *Upstream
	ctx    *fasthttp.RequestCtx // until end only
	client *clientConn
	isHead bool
	now    time.Duration // when it began, or a connection was dialed for it, on clock
	stream stream        // the answer's body, once Relay has begun

	mu sync.Mutex
	progress
}

// A progress is how far an exchange is. Its lock guards it.
type progress struct {
	gone      bool               // the client left
	over      bool               // end was called
	answered  bool               // the head is there
	conn      *conn              // nil before it is taken
	cancel    context.CancelFunc // of dialing
	watched   bool               // between watch and unwatch
	stopWatch func()             // nil while nobody watches
	upload    *upload            // nil when the body went up before anything was read
}

// Send writes the client's request of ctx to the upstream and waits for the
// head of the answer. It is called from the handler's goroutine, once per
// request (again only after Response.Discard, and then with a whole body).
// When the client hangs up the connection to the upstream is closed at once.
// Every error is an *Error.
//
// The caller ends every Response with exactly one of Relay and Discard.
func (u *Upstream) Send(ctx *fasthttp.RequestCtx, r Request) (*Response, error) {
	client := clientOf(ctx)
	client.flush = u.config.ClientWrite
	x := &client.exchange
	x.up, x.ctx, x.client, x.isHead, x.now = u, ctx, client, ctx.IsHead(), clock()
	x.mu.Lock() // a hang-up may be on its way to the exchange before
	x.progress = progress{}
	x.mu.Unlock()
	text := u.heads.Get().(*[]byte)
	response, err := x.send(r, text)
	if err != nil {
		give(&u.heads, text)
		return nil, x.fail(err)
	}
	return response, nil
}

func (x *exchange) send(r Request, text *[]byte) (*Response, error) {
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
	if held || x.followed() { // the client's connection is not read from any more, or that does not matter
		x.watch()
	}
	inOne := held && length <= inline
	if err := x.connect(inOne); err != nil {
		return nil, err
	}
	var err error
	if inOne {
		err = x.sendInline(text, r.Body, rest, length)
	} else {
		err = x.sendBeside(*text, r.Body, rest, length)
	}
	if err != nil {
		return nil, err
	}
	return x.receive(text, head.upgrade)
}

// source tells what the body is made of besides r.Body: what follows from the
// client, nil for nothing, and the length of it all.
func (x *exchange) source(r Request) (rest io.Reader, length int64) {
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

// oneChunk is a chunked body of one chunk, which holds body.
func oneChunk(body [][]byte) [][]byte {
	const last = "0\r\n\r\n"
	n := size(body)
	if n == 0 {
		return [][]byte{[]byte(last)}
	}
	framed := append(make([][]byte, 0, len(body)+2), fmt.Appendf(nil, "%x\r\n", n))
	return append(append(framed, body...), []byte("\r\n"+last))
}

// connect takes a connection, unless the client leaves before. It is usable, unless
// the caller asks, see takeIdle.
func (x *exchange) connect(asks bool) error {
	c := x.up.takeIdle(asks, x.now)
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
		return net.ErrClosed // nothing was written, but nobody waits either
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

// sendInline writes head and body in one go.
func (x *exchange) sendInline(text *[]byte, body [][]byte, rest io.Reader, length int64) error {
	if length <= joined || x.up.tls != nil || len(body) > maxPieces {
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
		c.load(*text, body)
		if !c.pooled || !x.up.canAsk {
			return c.put()
		}
		err := c.ask()
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

// join appends the body to text. A rest is short: fasthttp has read it.
func (x *exchange) join(text *[]byte, body [][]byte, rest io.Reader, length int64) error {
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
func (x *exchange) receive(text *[]byte, upgrade bool) (*Response, error) {
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

// fail ends an exchange without an answer and says why in one class.
func (x *exchange) fail(err error) error {
	x.end(false)
	err = x.classify(err, FirstByteTimeout, ClosedEarly)
	if ClassOf(err) == ClientGone { // nor is anybody there for what stands behind it on this connection
		x.ctx.SetConnectionClose()
	}
	return err
}

// classify names err. What else is known weighs more than what a closed
// connection says of itself.
func (x *exchange) classify(err error, timeout, otherwise Class) error {
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
	return &Error{otherwise, inside(err)}
}

// followed reports whether the hangup watcher sees the client leave.
func (x *exchange) followed() bool { return x.client.token != 0 && !x.up.portable }

// watch looks for the client's hang-up, until unwatch. Nobody may read from its
// connection meanwhile, unless it is followed.
func (x *exchange) watch() {
	x.mu.Lock()
	begins := !x.over && !x.watched
	x.watched = x.watched || begins
	if begins && !x.followed() {
		x.stopWatch = watchHangup(x.client, x.up.hungUp, x.client.guard.options.Panicked, x.hangUp)
	}
	x.mu.Unlock()
	if begins && x.followed() {
		x.client.watch(x)
	}
}

// hangUp cancels what is under way: the client left.
func (x *exchange) hangUp() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.watched {
		return
	}
	x.gone = true
	if x.cancel != nil {
		x.cancel()
	}
	if x.conn != nil && !x.over {
		x.conn.drop()
	}
}

// unwatch ends the watch. After it hangUp does nothing.
func (x *exchange) unwatch() {
	x.client.watching.Store(nil)
	x.mu.Lock()
	stop := x.stopWatch
	x.watched, x.stopWatch = false, nil
	x.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// abandon ends an exchange that nobody goes on with, unless its answer is under way.
func (x *exchange) abandon() {
	if x.client != nil && x.stream.x == nil {
		x.end(false)
	}
}

// end gives the connection back, for further use when keep is set and nothing
// speaks against it. It waits for everything that this exchange started.
// Further calls do nothing.
func (x *exchange) end(keep bool) {
	x.mu.Lock()
	over := x.over
	x.over = true
	upload := x.upload
	x.mu.Unlock()
	if over {
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
