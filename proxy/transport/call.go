package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/http1"
	"sidenote/proxy/transport/tcp"
)

const (
	// maxCopied is the size of the largest body that is copied behind its head. The pieces of
	// larger ones are gathered by the kernel (writev), which costs more for small ones.
	maxCopied = 16 << 10
	// maxInline is the size of the largest body that is written before the answer is read. Of a
	// larger one, what the kernel does not take at once is written while an early answer can
	// already be read.
	maxInline = 64 << 10
	// afterCut is how long to wait for an answer once the upstream has stopped reading the body: it
	// has answered before, or never will.
	afterCut = 5 * time.Second
)

// A Call is a request to the upstream. With only Head set it relays the client's request: same
// target, same header lines, the body streamed in the same framing.
type Call struct {
	Head *Head // head of the client's request, see Capture
	// Body replaces the client's body (Whole), or is the part of it that ReadBody has read, with
	// the rest following from the client's stream. Its pieces are sent one after another. Neither
	// they nor the list may change until Answer.Sent is true, the Answer is closed, or Do fails.
	Body  [][]byte
	Whole bool
	// Same means that a Whole body is byte for byte the client's: it is sent in its original
	// framing, with the client's digests.
	Same bool
	// Replace replaces header lines of the client, e.g. Authorization by the upstream's own key, or
	// removes them, e.g. api-key and x-api-key.
	Replace []Header
	// Deployment replaces the model in paths that name one, as on Azure; "" keeps it.
	Deployment string
	// Without removes header lines that contain this text; "" removes none.
	Without string
	// NoUpgrade removes the client's request to switch to another protocol.
	NoUpgrade bool
	// Interim relays the upstream's interim answers at once, e.g. 103 Early Hints, without lines
	// named Sidenote-*. HTTP/1.0 clients get none.
	Interim bool
}

// An upstreamCall is one request to the upstream and its answer, from before the connection is
// taken until it is returned.
type upstreamCall struct {
	up     *Upstream
	head   *Head
	watch  *watch          // of the client that the call is made for; nil if there is none
	now    time.Duration   // tcp.Clock when it began, or when a connection was dialed for it
	ctx    context.Context // the context if it is not watch itself; else nil
	stop   func() bool     // stops waiting for the end of ctx; nil if ctx is nil
	answer Answer
	sent   bool // part of the request may have been sent; used by the goroutine of Do only

	mu sync.Mutex
	progress
}

// A progress says how far an upstreamCall has got. upstreamCall.mu guards it.
type progress struct {
	aborted  bool               // the context ended
	ended    bool               // end was called
	answered bool               // the head of the answer has been read
	conn     *conn              // nil before it is taken
	cancel   context.CancelFunc // cancels the dial in progress
	upload   *upload            // nil if the whole body was sent before the answer was read
}

// Do sends a request to the upstream and waits for the head of the answer. When ctx ends, the
// connection to the upstream is closed at once. That counts as an upstream timeout if the cause of
// ctx is context.DeadlineExceeded, otherwise as a client that left. (The end of Watch's parent is
// not noticed here; Close ends the calls of an Upstream.) Every error is an *Error. The caller must
// close each Answer; those of calls with a context of Watch are closed at the latest when the
// handler has returned.
//
// Only one call at a time may send the client's own body, and none may after that.
func (u *Upstream) Do(ctx context.Context, c Call) (*Answer, error) {
	x := newCall(ctx)
	x.up, x.head, x.now = u, c.Head, tcp.Clock()
	if x.watch != ctx {
		x.ctx = ctx
		x.stop = panics.AfterEnd(ctx, u.config.Panicked, x.abort)
	}
	text := u.heads.Get().(*[]byte)
	if err := x.do(ctx, c, text); err != nil {
		putBuffer(&u.heads, text)
		x.end(false)
		err = x.classify(err, FirstByteTimeout, ClosedEarly)
		if x.watch != nil && ClassOf(err) == ClientGone {
			x.watch.client.cut = true
		}
		return nil, err
	}
	return &x.answer, nil
}

// newCall returns a call for ctx.
func newCall(ctx context.Context) *upstreamCall {
	if w := watchOf(ctx); w != nil {
		return w.newCall(w == ctx)
	}
	return new(upstreamCall)
}

func (x *upstreamCall) do(ctx context.Context, c Call, text *[]byte) error {
	rest, length := x.source(c)
	framed := length
	if c.Whole && c.Same && c.Head.length == chunked {
		framed, c.Body = chunked, oneChunk(c.Body)
		length = int64(http1.Size(c.Body))
	}
	head := newRequestHead(x.up, c, framed)
	var ok bool
	if *text, ok = head.append((*text)[:0]); !ok {
		return &Error{BadTarget, errors.New("request target without a path")}
	}
	held := rest == nil || length >= 0 && length <= prefetched
	if held {
		x.watchClient()
	}
	if ctx.Err() != nil { // abort may not have been called yet
		x.abort()
	}
	inOne := held && length <= maxInline
	if err := x.connect(inOne); err != nil {
		return err
	}
	x.sent = true
	var err error
	if inOne {
		err = x.sendInline(text, c.Body, rest, length)
	} else {
		err = x.sendWithUpload(*text, c.Body, rest, length)
	}
	if err != nil {
		return err
	}
	return x.receive(c, text, head.upgrade)
}

// watchClient makes a hang-up of the client end the call, on systems that cannot watch for it while
// the client's body is read.
func (x *upstreamCall) watchClient() {
	if x.watch != nil {
		x.watch.begin()
	}
}

// source returns the part of the body still to be read from the client, nil if there is none, and
// the length of the whole body.
func (x *upstreamCall) source(c Call) (rest io.Reader, length int64) {
	switch {
	case c.Whole:
		return nil, int64(http1.Size(c.Body))
	case c.Head.stream == nil || c.Head.length == 0:
		return nil, 0
	case c.Head.length > 0:
		return c.Head.stream, int64(c.Head.length)
	}
	return c.Head.stream, chunked
}

// oneChunk returns body in chunked framing, as a single chunk.
func oneChunk(body [][]byte) [][]byte {
	n := http1.Size(body)
	if n == 0 {
		return [][]byte{[]byte(http1.LastChunk)}
	}
	framed := append(make([][]byte, 0, len(body)+2), fmt.Appendf(nil, "%x\r\n", n))
	return append(append(framed, body...), []byte("\r\n"+http1.LastChunk))
}

// connect takes a connection from the pool or dials one. It fails if the context ends meanwhile. If
// unchecked is set, the caller must check a pooled connection, see takeIdle.
func (x *upstreamCall) connect(unchecked bool) error {
	c := x.up.takeIdle(unchecked, x.now)
	if c == nil {
		ctx, cancel := context.WithCancel(x.up.life)
		defer cancel()
		x.mu.Lock()
		x.cancel = cancel
		aborted := x.aborted
		x.mu.Unlock()
		if aborted {
			return net.ErrClosed
		}
		var err error
		if c, err = x.up.dial(ctx); err != nil {
			return err
		}
		x.now = tcp.Clock()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancel, x.conn = nil, c
	if x.aborted {
		return net.ErrClosed // nothing was written yet
	}
	return nil
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
		if err := c.WaitBoth(x.now, x.up.config.FirstByte); err != nil {
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

// join appends the body to text. Reading rest does not wait, because fasthttp has already buffered
// it.
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
		return x.head.client.bodyError(err)
	}
	x.head.client.state.bodyRead = true
	return nil
}

// receive reads the head of the answer into text.
func (x *upstreamCall) receive(c Call, text *[]byte, upgrade bool) error {
	a := &x.answer
	var interim func(*http1.AnswerHead)
	if c.Interim && c.Head.http11 {
		interim = x.passInterim
	}
	a.x, a.text = x, text
	var err error
	if *text, err = a.head.Read(x.conn.br, (*text)[:0], x.head.isHead(), interim); err != nil {
		return err
	}
	if a.head.Status == 101 && !upgrade {
		return http1.Malformed("another protocol, unasked")
	}
	x.mu.Lock()
	x.answered = true
	x.mu.Unlock()
	if x.upload != nil {
		x.upload.settle()
	}
	x.conn.idle = x.up.config.Idle
	a.body = http1.NewBody(x.conn.br, &a.head)
	return a.body.Begin()
}

// passInterim relays an interim answer to the client, except 100 Continue: our server answers
// Expect itself.
func (x *upstreamCall) passInterim(h *http1.AnswerHead) {
	if h.Status == 100 {
		return
	}
	text := strconv.AppendInt([]byte("HTTP/1.1 "), int64(h.Status), 10)
	text = h.Append(append(text, ' '), []Header{{Name: "Content-Length"}})
	if _, err := x.head.client.Write(append(text, "\r\n\r\n"...)); err != nil {
		x.abort() // the client cannot read anything after a partial answer
	}
}

// classify returns err as an *Error. If the call was aborted on purpose its connection was closed,
// so that reason takes precedence over the connection's error.
func (x *upstreamCall) classify(err error, timeout, otherwise Class) error {
	x.mu.Lock()
	aborted, upload := x.aborted, x.upload
	x.mu.Unlock()
	var known *Error
	switch {
	case upload != nil && upload.fault != nil:
		return upload.fault
	case x.up.closed(): // Close may also end the context
		return &Error{Closed, net.ErrClosed}
	case aborted && x.late() && !x.sent:
		return &Error{timeout, ErrUnsent}
	case aborted && x.late():
		return &Error{timeout, context.DeadlineExceeded}
	case aborted && !x.sent:
		return &Error{ClientGone, ErrUnsent}
	case aborted:
		return &Error{ClientGone, errors.New("client hung up")}
	case errors.As(err, &known):
		return known
	case errors.Is(err, http1.ErrFraming):
		return &Error{BadResponse, err}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{timeout, err}
	}
	return &Error{otherwise, http1.UnexpectedEOF(err)}
}

// late reports whether a deadline ended the call.
func (x *upstreamCall) late() bool {
	return x.ctx != nil && errors.Is(context.Cause(x.ctx), context.DeadlineExceeded)
}

// abort is called when the context has ended. It cancels whatever is in progress.
func (x *upstreamCall) abort() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return
	}
	x.aborted = true
	if x.cancel != nil {
		x.cancel()
	}
	if x.conn != nil {
		x.conn.drop()
	}
}

// handOver lets x outlive the handler and its context. Its client is no longer watched.
func (x *upstreamCall) handOver() {
	if x.stop != nil {
		x.stop()
	}
	if x.watch != nil {
		x.watch.pause()
		x.watch.remove(x)
	}
}

// end returns the connection to the pool if keep is set, the context has not ended and the whole
// body was sent; otherwise it closes it. It waits for all goroutines of this call. Further calls do
// nothing.
func (x *upstreamCall) end(keep bool) {
	x.mu.Lock()
	ended := x.ended
	x.ended = true
	upload := x.upload
	x.mu.Unlock()
	if ended {
		return
	}
	if x.stop != nil {
		x.stop()
	}
	if upload != nil && !upload.finished() {
		keep = false
		x.conn.drop()
		upload.abort()
		<-upload.done
	}
	if upload != nil && upload.rest != nil {
		x.head.client.state.bodyRead = upload.complete()
	}
	if x.conn != nil {
		x.up.release(x.conn, keep && !x.aborted && (upload == nil || upload.err == nil))
	}
}
