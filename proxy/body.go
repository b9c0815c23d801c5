package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
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
// call's, if there is a BodyKeeper.
func (a *account) readText(ans *transport.Answer) {
	a.text = nil
	if a.server.bodies != nil && a.report.Route == route.Chat && ans.Status() == fasthttp.StatusOK {
		a.text = answer.NewTextReader(isStream(ans), string(ans.Header("Content-Encoding")), a)
	}
}

// tapText reads the next piece of the text. If that panics, the text is not recorded.
func (a *account) tapText(piece []byte) {
	defer panics.Recover(a.panicked, func() { a.text = nil })
	_, _ = a.text.Write(piece)
}

// keepAnswer passes the answer's text to the BodyKeeper, if there is one.
func (a *account) keepAnswer() {
	if a.server.bodies == nil {
		return
	}
	defer a.giveBack() // the end of a stream may have taken some memory
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

// maxChoices is OpenAI's own limit of n.
const maxChoices = 128

// AppendCompletion appends to dst the body of an answer to the chat request with the given body and
// model: an event stream or a single object, with text in each requested choice.
func AppendCompletion(dst []byte, id string, created time.Time, model string, request []byte, stream bool, text string) []byte {
	h := head{ID: "chatcmpl-" + id, Created: created.Unix(), Model: model}
	if stream {
		return appendStream(dst, h, shapeOf(request), text)
	}
	return appendCompletion(dst, h, shapeOf(request), text)
}

// A shape holds the fields of a request that decide the form of the answer.
type shape struct {
	N             int `json:"n"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// shapeOf reads the shape. A field of a wrong type counts as absent, because the parser that
// accepted the request does not check these fields.
func shapeOf(request []byte) shape {
	var s shape
	if err := json.Unmarshal(request, &s); err != nil {
		s = shape{}
	}
	s.N = min(max(s.N, 1), maxChoices)
	return s
}

// A head holds the fields that all events of one answer repeat.
type head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

// zeroUsage is the usage of an answer for which no model ran.
const zeroUsage = `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`

// appendCompletion appends a chat.completion with text in each of its choices.
func appendCompletion(dst []byte, h head, s shape, text string) []byte {
	h.Object = "chat.completion"
	dst = append(openObject(dst, h), `,"choices":[`...)
	quoted := encodeCompletion(text)
	for i := range s.N {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"index":`...), int64(i), 10)
		dst = append(append(dst, `,"message":{"role":"assistant","content":`...), quoted...)
		dst = append(dst, `,"refusal":null},"logprobs":null,"finish_reason":"stop"}`...)
	}
	return append(dst, `],"usage":`+zeroUsage+`}`...)
}

// appendStream appends the events of a streamed answer: for each choice a chunk with role and text
// and a chunk with the finish reason, then usage if the request asked for it.
func appendStream(dst []byte, h head, s shape, text string) []byte {
	h.Object = "chat.completion.chunk"
	usage := ""
	if s.StreamOptions.IncludeUsage {
		usage = `,"usage":null`
	}
	event := func(choices, usage string) {
		dst = append(openObject(append(dst, "data: "...), h), `,"choices":[`+choices+`]`+usage+"}\n\n"...)
	}
	quoted := string(encodeCompletion(text))
	for i := range s.N {
		index := strconv.Itoa(i)
		event(`{"index":`+index+`,"delta":{"role":"assistant","content":`+quoted+`,"refusal":null},"logprobs":null,"finish_reason":null}`, usage)
		event(`{"index":`+index+`,"delta":{},"logprobs":null,"finish_reason":"stop"}`, usage)
	}
	if s.StreamOptions.IncludeUsage {
		event("", `,"usage":`+zeroUsage)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// openObject appends v as a JSON object without its closing brace.
func openObject(dst []byte, v head) []byte {
	b := encodeCompletion(v)
	return append(dst, b[:len(b)-1]...)
}

func encodeCompletion(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: strings and a number did not encode: " + err.Error())
	}
	return b
}
