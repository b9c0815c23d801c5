package proxy

import (
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/completion"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// sendFixedAnswer answers with the policy's fixed text, in the shape that the
// request asked for. No upstream is called.
func (x *exchange) sendFixedAnswer(req *rewrite.Request, text string) {
	ctx, r := x.ctx, &x.report
	r.Status = fasthttp.StatusOK
	ctx.Response.Header.Set(report.HeaderID, r.ID)
	ctx.Response.Header.SetBytesV(report.HeaderStatus, report.AppendStatus(nil, r))
	ctx.Response.Header.SetContentType("application/json")
	if req.Stream {
		ctx.Response.Header.SetContentType("text/event-stream; charset=utf-8")
		ctx.Response.Header.Set("Cache-Control", "no-cache")
	}
	ctx.Response.SetBodyRaw(completion.Append(nil, r.ID, r.Time, req.Model, req.Body, req.Stream, text))
	r.TTFB = time.Since(r.Time)
}
