package proxy

import (
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// A compressed body may decompress to maxUnpacking times its size, and to minUnpacked bytes in any
// case. Chats compress to about a tenth, decompression bombs to a thousandth.
const (
	maxUnpacking = 50
	minUnpacked  = 1 << 20
)

// smallBody is the largest body, in bytes, that is read without checking memory first.
const smallBody = 64 << 10

// maxBody returns the size in bytes of the largest body that is read to be rewritten: the policy's
// limit, or less if memory could never hold that besides what a holds already.
func (a *account) maxBody(p *tenant.Policy) int {
	limit := p.MaxRewriteBytes
	if limit <= 0 {
		limit = DefaultMaxRewriteBytes
	}
	return a.server.memory.Largest(limit+a.reservedBytes) - a.reservedBytes
}

// readBody reads the body of a request and decompresses it. If it cannot, err is set if the policy
// requires reading bodies. Otherwise reason says why, and body is the part that was read, still
// compressed, with the rest unread.
func (x *exchange) readBody() (body []byte, reason rewrite.Reason, err error) {
	ctx, encoding := x.ctx, ""
	if x.head.Coded() {
		encoding = contentEncoding(&ctx.Request.Header)
	}
	if !answer.PlainCoding(encoding) && !answer.KnownCoding(encoding) {
		return x.undecodable(nil, encoding, 0, answer.ErrUnknownCoding)
	}
	limit := x.maxBody(x.policy)
	if n := ctx.Request.Header.ContentLength(); n > smallBody && n <= limit && !x.server.memory.Fits(n) {
		return nil, "", x.server.noRoom()
	}
	body, whole, err := transport.ReadBody(ctx, limit, x.server.timeouts.ClientRead, x)
	x.readTook = time.Since(x.report.Time) // the client's time to send its body is not our overhead
	switch {
	case err != nil:
		return nil, "", x.server.transportError(err)
	case !whole && x.policy.ReadsBodies():
		ctx.SetConnectionClose() // the rest of the body must not be read as a request
		return nil, "", tooLarge(limit)
	case !whole:
		return body, rewrite.ReasonTooLarge, nil
	case answer.PlainCoding(encoding):
		return body, "", nil
	}
	x.compressed = body
	limit = min(x.maxBody(x.policy), max(minUnpacked, maxUnpacking*len(body)))
	text, err := answer.DecodeText(encoding, body, limit, x.Take)
	switch {
	case errors.Is(err, answer.ErrNoDecodeRoom):
		return nil, "", x.server.noRoom()
	case err != nil:
		return x.undecodable(body, encoding, limit, err)
	}
	return text, "", nil
}

// undecodable returns the results of readBody for a compressed body that cannot be decompressed to
// at most limit bytes.
func (q *request) undecodable(body []byte, encoding string, limit int, err error) ([]byte, rewrite.Reason, error) {
	large := errors.Is(err, answer.ErrDecodedTooLong)
	switch {
	case large && q.policy.ReadsBodies():
		return nil, "", tooLarge(limit)
	case large:
		return body, rewrite.ReasonTooLarge, nil
	case q.policy.ReadsBodies():
		return nil, "", &tenant.APIError{
			Reason: rewrite.ReasonEncoded, Param: "Content-Encoding", Err: err,
			Message: fmt.Sprintf("The body cannot be read as Content-Encoding %q; send it as gzip, deflate, br, zstd, or uncompressed.", encoding),
		}
	}
	return body, rewrite.ReasonEncoded, nil
}

func tooLarge(limit int) *tenant.APIError {
	return &tenant.APIError{Reason: rewrite.ReasonTooLarge, Message: fmt.Sprintf("The body is larger than %d bytes.", limit)}
}

// contentEncoding returns the value of Content-Encoding. Several such headers make one text that
// no decoder knows.
func contentEncoding(h *fasthttp.RequestHeader) string {
	all := h.PeekAll(fasthttp.HeaderContentEncoding)
	if len(all) == 1 {
		return string(all[0])
	}
	return fmt.Sprintf("%s", all)
}

// A BodyKeeper gets the bodies of chats, before their Reports are recorded. It must not keep or
// change its arguments, whose memory is used again. It must be quick, as the request waits, and
// safe for concurrent use.
type BodyKeeper interface {
	// Received gets the body that the client sent, decompressed.
	Received(r *report.Report, body []byte)
	// Sent gets the pieces of the body that is sent upstream. It is called again for each retry
	// and each further call.
	Sent(r *report.Report, pieces [][]byte)
	// Answered gets the text of the answer to a chat, right before its Report is recorded: that of
	// the last call, or of the stage whose output is the answer.
	Answered(r *report.Report, said answer.Text)
}

// keepBody passes a body of this request to the BodyKeeper, if there is one: received if sent is
// nil, else sent. If the BodyKeeper panics only its record is lost.
func (a *account) keepBody(received []byte, sent [][]byte) {
	bodies := a.server.bodies
	if bodies == nil {
		return
	}
	defer panics.Recover(a.panicked, nil)
	if sent == nil {
		bodies.Received(&a.report, received)
		return
	}
	bodies.Sent(&a.report, sent)
}

// readText starts reading the text of an answer while it is relayed, in place of the previous
// call's, if there is a BodyKeeper or the span of the call has texts.
func (a *account) readText(ans *transport.Answer) {
	a.text, a.callText = nil, nil
	traced := a.callSpan != nil && a.server.tracing.Texts
	if (a.server.bodies != nil || traced) && a.report.Route.Rewritten() && ans.Status() == fasthttp.StatusOK {
		a.text = answer.NewTextReader(isStream(ans), string(ans.Header("Content-Encoding")), a)
	}
	if traced {
		a.callText = a.text
	}
}

// tapText reads the next piece of the text. If that panics, the text is not kept.
func (a *account) tapText(piece []byte) {
	defer panics.Recover(a.panicked, func() { a.text, a.callText = nil, nil })
	_, _ = a.text.Write(piece)
}

// keepAnswer passes the answer's text to the BodyKeeper, if there is one.
func (a *account) keepAnswer() {
	defer a.giveBack() // the end of a stream may have taken some memory
	if a.server.bodies == nil {
		return
	}
	defer panics.Recover(a.panicked, nil)
	said := a.ownAnswer
	switch outcome := a.report.Outcome; {
	case said != nil:
	case outcome == report.Staged:
		if s := a.report.Stages.Answering(); s != nil {
			said = &answer.Text{Bytes: len(s.Output), Text: s.Output, Finish: s.Finish}
		}
	case a.text != nil && outcome != report.Failed && outcome != rewrite.Refused: // else the text is that of a stage or a round
		read := a.text.Answer()
		said = &read
	}
	if said != nil {
		a.server.bodies.Answered(&a.report, *said)
	}
}
