package proxy

import (
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/coding"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// A compressed body may hold so many times its size, and in any case so many bytes:
// chats pack to a tenth or so, bombs to a thousandth.
const (
	maxUnpacking = 50
	minUnpacked  = 1 << 20
)

// fewBytes is a body so small that there is always room for it.
const fewBytes = 64 << 10

// maxBody is how large a body may be that is looked into: as large as the policy
// says, and not larger than memory could ever hold beside what this request holds.
func (x *exchange) maxBody() int {
	limit := x.policy.MaxRewriteBytes
	if limit <= 0 {
		limit = DefaultMaxRewriteBytes
	}
	return x.server.memory.largest(limit+x.held) - x.held
}

// Take implements transport.Room: what x takes is given back with its body.
func (x *exchange) Take(n int) bool {
	if !x.server.memory.take(n) {
		return false
	}
	x.held += n
	return true
}

// readBody reads the body of a chat request, uncompressed. reason says why it is not
// one to be rewritten, which a strict policy turns into an error; body is then what
// was read so far, the rest still to come.
func (x *exchange) readBody(ctx *fasthttp.RequestCtx) (body []byte, reason rewrite.Reason, err error) {
	encoding := ""
	if transport.Coded(ctx) {
		encoding = contentEncoding(&ctx.Request.Header)
	}
	if !coding.Plain(encoding) && !coding.Known(encoding) {
		return x.unread(nil, encoding, 0, coding.ErrUnknown)
	}
	limit := x.maxBody()
	if n := ctx.Request.Header.ContentLength(); n > fewBytes && n <= limit && !x.server.memory.fits(n) {
		return nil, "", x.server.noRoom()
	}
	body, whole, err := transport.ReadBody(ctx, limit, x.server.timeouts.ClientRead, x)
	x.read = time.Since(x.report.Time) // how long a client takes to send its body is no cost of ours
	switch {
	case err != nil:
		return nil, "", x.sendError(err)
	case !whole && x.policy.Rewrite.Strict():
		ctx.SetConnectionClose() // the rest of the body must not be read as a request
		return nil, "", tooLarge(limit)
	case !whole:
		return body, rewrite.ReasonTooLarge, nil
	case coding.Plain(encoding):
		return body, "", nil
	}
	x.packed = body
	limit = min(x.maxBody(), max(minUnpacked, maxUnpacking*len(body)))
	text, err := coding.Text(encoding, body, limit, x.Take)
	if err != nil {
		return x.unread(body, encoding, limit, err)
	}
	return text, "", nil
}

// unread says why a compressed body cannot be read as a text of at most limit bytes.
func (x *exchange) unread(body []byte, encoding string, limit int, err error) ([]byte, rewrite.Reason, error) {
	large := errors.Is(err, coding.ErrTooLong)
	switch {
	case errors.Is(err, coding.ErrNoRoom):
		return nil, "", x.server.noRoom()
	case large && x.policy.Rewrite.Strict():
		return nil, "", tooLarge(limit)
	case large:
		return body, rewrite.ReasonTooLarge, nil
	case x.policy.Rewrite.Strict():
		return nil, "", &Error{
			Reason: rewrite.ReasonEncoded, Param: "Content-Encoding", Err: err,
			Message: fmt.Sprintf("The body cannot be read as Content-Encoding %q; send it as gzip, deflate, br, zstd, or uncompressed.", encoding),
		}
	}
	return body, rewrite.ReasonEncoded, nil
}

func tooLarge(limit int) *Error {
	return &Error{Reason: rewrite.ReasonTooLarge, Message: fmt.Sprintf("The body is larger than %d bytes.", limit)}
}

// contentEncoding is all that a request says of how its body is encoded.
func contentEncoding(h *fasthttp.RequestHeader) string {
	all := h.PeekAll(fasthttp.HeaderContentEncoding)
	if len(all) == 1 {
		return string(all[0])
	}
	return fmt.Sprintf("%s", all) // a list of several, which nobody knows
}

// pass relays a chat request that is not looked into; of its body the given part
// has been read, all of it if it was compressed.
func (x *exchange) pass(ctx *fasthttp.RequestCtx, read []byte, reason rewrite.Reason) error {
	x.report.Outcome, x.report.Reason = rewrite.Untouched, reason
	return x.forward(ctx, transport.Request{Body: [][]byte{read}, Whole: x.packed != nil, Same: true, Replace: x.upstream.replace, NoUpgrade: true})
}
