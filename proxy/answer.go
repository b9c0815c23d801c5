package proxy

import (
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// sendFixedAnswer answers with the policy's fixed text, in the shape that the request asked for.
// No upstream is called.
func (x *exchange) sendFixedAnswer(req *rewrite.Request, text string) {
	x.answerItself(x.fixedAnswer(req, req.Stream, text), req.Stream)
}

// fixedAnswer returns the body of an answer with a fixed text: an event stream or a JSON object.
func (x *exchange) fixedAnswer(req *rewrite.Request, stream bool, text string) []byte {
	if x.server.bodies != nil {
		x.said = &answer.Text{Bytes: len(text), Text: text, Finish: "stop"}
	}
	return AppendCompletion(nil, x.report.ID, x.report.Time, req.Model, req.Body, stream, text)
}

// answerItself answers with a body that Sidenote wrote: an event stream or a JSON object.
func (x *exchange) answerItself(body []byte, stream bool) {
	r, h := &x.report, &x.ctx.Response.Header
	r.Status = fasthttp.StatusOK
	h.Set(report.HeaderID, r.ID)
	h.SetBytesV(report.HeaderStatus, report.AppendStatus(nil, r))
	if sources := report.AppendAllSources(nil, r); len(sources) > 0 {
		h.SetBytesV(report.HeaderSources, sources)
	}
	h.SetContentType("application/json")
	if stream {
		h.SetContentType("text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
	}
	x.ctx.Response.SetBodyRaw(body)
	r.TTFB = time.Since(r.Time)
}
