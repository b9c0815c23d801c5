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

// A Call is a request to the upstream. With a Head alone it is a plain relay of the
// client's request: same target, same head lines, the body streamed in the same framing.
type Call struct {
	Head *Head // of the client's request, see Capture
	// Body is a whole body in place of the client's (Whole), or the part of it that
	// ReadBody has read; the rest then follows from the client's stream. Its pieces are
	// sent one after another. Neither they nor the list may change until Answer.Sent is
	// true, the Answer is closed, or Do failed.
	Body  [][]byte
	Whole bool
	// Same says of a Whole body that it is the client's, byte for byte: it is sent in
	// the framing in which it came, with the client's digests of it.
	Same bool
	// Replace puts lines in place of the client's, e.g. Authorization with the
	// upstream's own key, and api-key and x-api-key with nothing.
	Replace []Header
	// Deployment is the model that is asked where the path names one, as on Azure; "" is that of the path.
	Deployment string
	// Without removes head lines that contain this text; "" removes none.
	Without string
	// NoUpgrade removes the client's request to switch to another protocol.
	NoUpgrade bool
	// Interim passes the upstream's interim answers on to the client at once, e.g. 103 Early
	// Hints, without lines named Sidenote-*. An HTTP/1.0 client gets none.
	Interim bool
}

// An upstreamCall is one request to the upstream and its answer, from before the
// connection is taken until it is given back.
type upstreamCall struct {
	up     *Upstream
	head   *Head
	watch  *watch          // of the client that it is made for; nil if there is none
	now    time.Duration   // clock when it began, or when a connection was dialed for it
	ctx    context.Context // that is not watch itself; else nil
	stop   func() bool     // ends the wait for its end; nil without one
	answer Answer
	sent   bool // a part of the request may have been; for the caller of Do alone

	mu sync.Mutex
	progress
}

// A progress says how far an upstreamCall has got. upstreamCall.mu guards it.
type progress struct {
	aborted  bool               // the context ended
	ended    bool               // end was called
	answered bool               // the head of the answer has been read
	conn     *conn              // nil before it is taken
	cancel   context.CancelFunc // ends a dial that is under way
	upload   *upload            // nil if the whole body was sent before anything was read
}

// Do sends a request to the upstream and waits for the head of the answer. When ctx ends,
// the connection to the upstream is closed at once; a context that ends with
// context.DeadlineExceeded as its cause counts as an upstream that is late, and every other that ends as a client that left. (The end of Watch's parent is not noticed here: Close ends the calls of an
// Upstream.) Every error is an *Error. The caller must close each Answer; those of
// calls with a context of Watch are closed when the handler has returned, if not before.
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

// watchClient makes the end of the client end the call, on systems where that could not
// begin while the client's body was read.
func (x *upstreamCall) watchClient() {
	if x.watch != nil {
		x.watch.begin()
	}
}

// source returns the part of the body that is still to be read from the client, nil if
// there is none, and the length of the whole body.
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

// oneChunk returns body in the chunked framing, as a single chunk.
func oneChunk(body [][]byte) [][]byte {
	n := http1.Size(body)
	if n == 0 {
		return [][]byte{[]byte(http1.LastChunk)}
	}
	framed := append(make([][]byte, 0, len(body)+2), fmt.Appendf(nil, "%x\r\n", n))
	return append(append(framed, body...), []byte("\r\n"+http1.LastChunk))
}

// connect takes a connection from the pool or dials one, and fails if the context ends
// meanwhile. If unchecked is set the caller must check a pooled one, see takeIdle.
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

// passInterim writes an interim answer to the client, but for 100 Continue: whether the
// client waits for one is between it and us.
func (x *upstreamCall) passInterim(h *http1.AnswerHead) {
	if h.Status == 100 {
		return
	}
	text := strconv.AppendInt([]byte("HTTP/1.1 "), int64(h.Status), 10)
	text = h.Append(append(text, ' '), []Header{{Name: "Content-Length"}})
	if _, err := x.head.client.Write(append(text, "\r\n\r\n"...)); err != nil {
		x.abort() // nothing can be read after a part of an answer
	}
}

// classify returns err as an *Error. If the call was ended on purpose its connection was
// closed, so that reason counts more than the error of the connection.
func (x *upstreamCall) classify(err error, timeout, otherwise Class) error {
	x.mu.Lock()
	aborted, upload := x.aborted, x.upload
	x.mu.Unlock()
	var known *Error
	switch {
	case upload != nil && upload.fault != nil:
		return upload.fault
	case x.up.closed(): // which may also end the context
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

// late tells whether a deadline has ended the call.
func (x *upstreamCall) late() bool {
	return x.ctx != nil && errors.Is(context.Cause(x.ctx), context.DeadlineExceeded)
}

// abort is called when the context has ended, and cancels what is under way.
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

// handOver lets x go on after the handler, and whatever becomes of its context. Its client
// is not watched any more.
func (x *upstreamCall) handOver() {
	if x.stop != nil {
		x.stop()
	}
	if x.watch != nil {
		x.watch.pause()
		x.watch.remove(x)
	}
}

// end gives the connection back. It goes into the pool if keep is set, the context has
// not ended and the whole body was sent. end waits for all goroutines that this call
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
