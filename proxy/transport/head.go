package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport/http1"
	"sidenote/proxy/transport/tcp"
)

// chunked is the length of a body of unknown length.
const chunked = -1

// A Head is the head of a client's request, as needed for upstream calls. It is valid until the
// handler returns.
type Head struct {
	client *clientConn
	method []byte
	target []byte
	http11 bool
	length int       // length of the body, or chunked
	stream io.Reader // the unread part of the body; nil if there is none

	block     []byte // all header lines
	lines     []requestLine
	connected http1.Connection
	own       bool // it has a line Sidenote-*
	coded     bool // it has a line Content-Encoding
}

// Capture returns the head of ctx's request for Upstream.Do.
func Capture(ctx *fasthttp.RequestCtx) *Head {
	h := &stateOf(ctx).head
	h.stream = ctx.RequestBodyStream()
	return h
}

func (h *Head) isHead() bool { return string(h.method) == fasthttp.MethodHead }

// A requestLine is block[start:next]; its name ends at colon.
type requestLine struct {
	start, colon, next int32
	kind               http1.Kind
}

// read parses block up to the empty line. ok is false if two servers could interpret the lines
// differently.
func (h *Head) read(block []byte) (ok bool) {
	h.block = block
	encoded, sized := false, false
	for at := 0; at < len(block); {
		rest := block[at:]
		if len(rest) >= 2 && rest[0] == '\r' && rest[1] == '\n' {
			break
		}
		f, ok := http1.NextField(rest)
		if !ok || f.Bare() {
			return false
		}
		kind := http1.KindOf(f.Name(rest))
		switch kind {
		case http1.EncodingName:
			if !http1.Is(f.Value(rest), "chunked") {
				return false
			}
			encoded = true
		case http1.LengthName:
			sized = true
		case http1.ConnectionName:
			h.connected.Add(f.Value(rest))
		case http1.OwnName:
			h.own = true
		case http1.CodingName:
			h.coded = true
		}
		h.lines = append(h.lines, requestLine{int32(at), int32(at + f.Colon), int32(at + f.Next), kind})
		at += f.Next
	}
	return !encoded || !sized
}

// HasSidenoteHeader reports whether a line is named Sidenote-*, ignoring case and with "_" for "-".
func (h *Head) HasSidenoteHeader() bool { return h.own }

// Coded reports whether there is a line Content-Encoding.
func (h *Head) Coded() bool { return h.coded }

// A requestHead converts the client's head into the one for the upstream.
type requestHead struct {
	host    string
	base    string // prefix of the client's target
	model   string // Call.Deployment
	replace []Header
	without string // remove lines that contain it; "" if there are none
	upgrade bool   // the line Upgrade is relayed
	other   bool   // the body is not the client's
	length  int64  // length of the body to send, or chunked
	client  *Head

	// What has been written already.
	replacements                   uint64 // bit i: replace[i] was written
	hosted, framed, connectionSaid bool
}

func newRequestHead(u *Upstream, c Call, length int64) requestHead {
	h := requestHead{
		host: u.config.BaseURL.Host, base: u.base, model: c.Deployment, replace: c.Replace, length: length, client: c.Head,
		other:   c.Whole && !c.Same,
		upgrade: !c.NoUpgrade && length == 0 && c.Head.wantsUpgrade(),
	}
	if c.Without != "" && bytes.Contains(c.Head.block, []byte(c.Without)) {
		h.without = c.Without
	}
	return h
}

// append writes the request line and the client's lines, verbatim and in order. A replacement takes
// the place of the first line that it replaces. Host and framing are added if missing. ok is false
// if the target cannot be forwarded.
func (h *requestHead) append(dst []byte) (_ []byte, ok bool) {
	dst = append(dst, h.client.method...)
	dst = append(dst, ' ')
	if dst, ok = http1.AppendTarget(dst, h.base, h.client.target, h.model); !ok || string(h.client.method) == fasthttp.MethodConnect {
		return dst, false
	}
	dst = append(dst, " HTTP/1.1\r\n"...)
	block := h.client.block
	from, to := int32(0), int32(0) // lines to copy that are not in dst yet
	for i := range h.client.lines {
		line := &h.client.lines[i]
		to = line.start
		name := block[line.start:line.colon]
		at := http1.Replaced(h.replace, name)
		if at < 0 && h.passes(line.kind, name) && !h.hidden(block[line.start:line.next]) {
			to = line.next
			continue
		}
		dst = append(dst, block[from:to]...)
		dst = h.appendChanged(dst, line.kind, name, at)
		from, to = line.next, line.next
	}
	dst = append(dst, block[from:to]...)
	if !h.hosted {
		dst = http1.AppendLine(dst, "Host", h.host)
	}
	if !h.framed && h.length != 0 {
		dst = h.appendFraming(dst)
	}
	for i := range h.replace {
		dst = h.appendReplacement(dst, i)
	}
	return append(dst, "\r\n"...), true
}

// hidden reports whether a line contains the text that must not reach the upstream.
func (h *requestHead) hidden(line []byte) bool {
	return h.without != "" && bytes.Contains(line, []byte(h.without))
}

// passes reports whether a line that is not replaced is relayed unchanged.
func (h *requestHead) passes(kind http1.Kind, name []byte) bool {
	switch kind {
	case http1.OtherName, http1.CodingName:
		return !h.client.connected.Names(name)
	case http1.DigestName:
		return !h.other && !h.client.connected.Names(name)
	case http1.UpgradeName:
		return h.upgrade
	}
	return false
}

// appendChanged writes the replacement of a line: replace[at], unless at is negative.
func (h *requestHead) appendChanged(dst []byte, kind http1.Kind, name []byte, at int) []byte {
	switch {
	case kind == http1.HostName:
		dst, h.hosted = appendOnce(dst, h.hosted, name, h.host), true
	case kind == http1.LengthName, kind == http1.EncodingName:
		if !h.framed {
			dst, h.framed = h.appendFraming(dst), true
		}
	case kind == http1.ConnectionName:
		if h.upgrade {
			dst, h.connectionSaid = appendOnce(dst, h.connectionSaid, name, "Upgrade"), true
		}
	case at >= 0:
		dst = h.appendReplacement(dst, at)
	}
	return dst
}

func (h *requestHead) appendFraming(dst []byte) []byte {
	if h.length == chunked {
		return http1.AppendLine(dst, "Transfer-Encoding", "chunked")
	}
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, h.length, 10)
	return append(dst, "\r\n"...)
}

func (h *requestHead) appendReplacement(dst []byte, i int) []byte {
	if bit := uint64(1) << i; h.replacements&bit == 0 && h.replace[i].Value != "" {
		h.replacements |= bit
		dst = http1.AppendLine(dst, h.replace[i].Name, h.replace[i].Value)
	}
	return dst
}

func appendOnce(dst []byte, done bool, name []byte, value string) []byte {
	if done {
		return dst
	}
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// wantsUpgrade reports whether the client asks for a protocol that is relayed. h2c is not, because
// its requests would bypass all checks.
func (h *Head) wantsUpgrade() bool {
	if !h.connected.Upgrade {
		return false
	}
	asked := false
	for i := range h.lines {
		if h.lines[i].kind != http1.UpgradeName {
			continue
		}
		protocols := h.block[h.lines[i].colon+1 : h.lines[i].next] // all Upgrade lines would be relayed
		if bytes.Contains(bytes.ToLower(protocols), []byte("h2c")) {
			return false
		}
		asked = asked || len(bytes.TrimSpace(protocols)) > 0
	}
	return asked
}

// TargetOn returns the path and query that the upstream gets for a raw request target; "" if the
// target cannot be forwarded. deployment is Call.Deployment.
func TargetOn(upstream *url.URL, raw []byte, deployment string) string {
	target, _ := http1.AppendTarget(nil, strings.TrimRight(upstream.EscapedPath(), "/"), raw, deployment)
	return string(target)
}

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
var errNoRoom = &Error{NoRoom, errors.New("not enough memory for a request body")}

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
