package transport

import (
	"bytes"
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

	// Used by the goroutine of Do only.
	sent  bool   // part of the request may have been sent
	taken []byte // the client's body, if it was read and nothing was sent

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
	answer, _, err := u.try(ctx, c)
	return answer, err
}

// try is Do. taken is not nil if nothing was sent, but the client's body was read: it is that body.
func (u *Upstream) try(ctx context.Context, c Call) (answer *Answer, taken []byte, err error) {
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
		u.reach.note(x.now, err)
		return nil, x.taken, err
	}
	u.reach.note(x.now, nil)
	return &x.answer, nil, nil
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
	head := len(*text)
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
			if rest != nil && x.head.client.state.bodyRead {
				x.taken = bytes.Clone((*text)[head:])
			}
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
		return http1.Malformed("switched protocols without a request to upgrade")
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
		return &Error{timeout, &Expired{x.up.limit(timeout), err}}
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

// errStale means that a pooled connection cannot be used: the upstream has closed it, or has sent
// bytes that no request asked for. Nothing was written to it.
var errStale = errors.New("idle connection is not usable")

// setRequest sets what writeRequest and sendPooled will write.
func (c *conn) setRequest(text []byte, body [][]byte) {
	c.pooledSend.list = append(append(c.pooledSend.list[:0], text), body...)
	c.pooledSend.out = c.pooledSend.list
}

// writeRequest writes the request set by setRequest. Only a timeout is an error: if the upstream
// stops reading, it may have answered before it closed.
func (c *conn) writeRequest() (err error) {
	a := &c.pooledSend
	if c.Conn == c.tcp {
		_, err = c.tcp.WriteAll(a.out)
	} else {
		_, err = a.out.WriteTo(c.Conn)
	}
	clear(a.list)
	a.out = nil
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return c.SetReadDeadline(time.Now().Add(afterCut))
}

// startWrite writes head, and as much of body as the kernel takes without waiting, which is usually
// all of it. It returns the rest and does not change body.
func (c *conn) startWrite(head []byte, body [][]byte) (left [][]byte, err error) {
	all, n := append([][]byte{head}, body...), 0
	if c.Conn == c.tcp {
		n = c.tcp.WriteSome(all)
	}
	if n < len(head) {
		_, err = c.Conn.Write(head[n:])
		return body, err
	}
	return tcp.Skip(all, n), nil
}

// A pooledSend is the state of a request that is sent on a pooled connection. A single call of
// RawConn.Read checks that the upstream has sent nothing, writes the request and waits for the
// answer. That saves a read: since the runtime watches for readiness from before the check on, it
// need not try to read again after the write before it waits.
type pooledSend struct {
	list [][]byte    // backing memory of out
	out  net.Buffers // what is still to be written; nil when all is written
	into []byte      // receives the start of the answer
	n    int
	err  error
	step func(fd uintptr) (done bool) // conn.stepPooled
}

// sendPooled checks that the pooled connection c is usable, writes the request set by setRequest
// and waits for the answer to begin.
func (c *conn) sendPooled() error {
	_, err := c.br.Peek(1)
	c.pooledSend.out = nil
	return err
}

// readPooled is Read while sendPooled runs.
func (c *conn) readPooled(p []byte) (int, error) {
	a := &c.pooledSend
	a.into, a.n, a.err = p, 0, nil
	err := c.tcp.Raw.Read(a.step)
	a.into = nil
	if err == nil {
		err = a.err
	}
	return a.n, err
}

// stepPooled is called by RawConn.Read, at the start and then whenever fd may be readable, until it
// returns true. The first call checks and writes, the others read.
func (c *conn) stepPooled(fd uintptr) (done bool) {
	a := &c.pooledSend
	n, wouldBlock, err := tcp.ReadNow(fd, a.into)
	switch {
	case len(a.out) > 0 && !wouldBlock:
		a.err = errStale
	case len(a.out) > 0:
		a.err = c.writeRequest()
		return a.err != nil
	case wouldBlock:
		return false
	case err != nil:
		a.err = err
	case n == 0:
		a.err = io.EOF
	default:
		a.n = n
	}
	return true
}

// maxDrained is how many bytes of a body Close reads to keep a connection usable.
const maxDrained = 64 << 10

// An Answer is the head of an upstream's answer and a reader of its body. It is not safe for
// concurrent use and must not be used after Relay or Close.
type Answer struct {
	x    *upstreamCall
	text *[]byte // backing memory of head
	head http1.AnswerHead
	body http1.Body
}

// Status returns the three-digit status code.
func (a *Answer) Status() int { return a.head.Status }

// Header returns the trimmed value of the first line with that name, ignoring case, or nil if there
// is none. It is valid until Relay or Close.
func (a *Answer) Header(name string) []byte { return a.head.Field([]byte(name)) }

// Sent reports whether the whole request was sent, so that Call.Body is no longer read.
func (a *Answer) Sent() bool { return a.x.upload == nil || a.x.upload.complete() }

// Read implements io.Reader for the body. It waits for at most Config.Idle.
func (a *Answer) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a body returns it as it is
		err = a.x.classify(err, IdleTimeout, Truncated)
	}
	return n, err
}

// Peek reads up to limit bytes of the body without consuming them: the caller can read a short
// answer before it chooses between Close and Relay. whole reports that body is all of it. It is
// false if there is more (nothing is read if the head announces more), and if the upstream broke
// off or was silent for Config.Idle; Relay then cuts the client's answer as well. Peek waits for
// the end of the body as long as data arrives, so use it for answers that should be short, such as
// errors.
//
// Memory beyond 64 KiB is reserved from room, unless that is nil. If there is none, Peek stops and
// whole is false; Relay still relays the whole body.
//
// body must not be changed. It stays valid after Close or Relay.
func (a *Answer) Peek(limit int, room BodyMemory) (body []byte, whole bool) {
	announced := 0
	if a.head.Kind == http1.BodyFixed {
		if a.head.Length > int64(limit) {
			return nil, false
		}
		announced = int(a.head.Length)
	}
	return a.body.Peek(limit, announced, room)
}

// Close discards the rest of the answer. It reads a short rest so that the connection can be
// reused; otherwise it closes the connection. After Relay or Close it does nothing.
func (a *Answer) Close() {
	if a.text == nil {
		return
	}
	a.body.DropPeeked()
	if !a.body.Ended() && a.head.Kind != http1.BodyUntilClose {
		a.x.conn.idle = min(a.x.up.config.Idle, time.Second)
		_, _ = io.CopyN(io.Discard, &a.body, maxDrained) // only a.body.Ended matters
	}
	a.end(a.body.Ended())
}

// end ends the call. clean reports that the body was read to its end.
func (a *Answer) end(clean bool) {
	a.x.end(clean && a.head.Reusable())
	a.free()
}

// free releases the memory of the head. The call may go on.
func (a *Answer) free() {
	putBuffer(&a.x.up.heads, a.text)
	a.text = nil
}
