package admin

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"sidenote/proxy"
	"sidenote/rewrite"
)

// metrics answers in the format that the scraper asks for.
func (t Telemetry) metrics(ctx *fasthttp.RequestCtx) error {
	if n := ctx.Request.Header.ContentLength(); n > 0 || n == -1 {
		// The adaptor would read a body of any size.
		ctx.SetConnectionClose()
		return &proxy.Error{Reason: rewrite.ReasonTooLarge, Message: "A scrape has no body."}
	}
	fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(t.Metrics, promhttp.HandlerOpts{}))(ctx)
	return nil
}

// healthz says that the process serves.
func (t Telemetry) healthz(ctx *fasthttp.RequestCtx) error {
	return answer(ctx, fasthttp.StatusOK, map[string]string{"status": "ok"})
}

// readyz says whether requests get what they are promised, or why not yet. A
// helper that is down is named and keeps nobody from being ready: requests are
// answered without it, and would be by no other replica with it.
func (t Telemetry) readyz(ctx *fasthttp.RequestCtx) error {
	missing, trouble := ask(t.Ready), ask(t.Trouble)
	status, code := "ready", fasthttp.StatusOK
	switch {
	case len(missing) > 0:
		status, code = "not ready", fasthttp.StatusServiceUnavailable
	case len(trouble) > 0:
		status = "degraded"
	default:
		return answer(ctx, code, map[string]any{"status": status})
	}
	return answer(ctx, code, map[string]any{"status": status, "reasons": slices.Concat(missing, trouble)})
}

func ask(lines func() []string) []string {
	if lines == nil {
		return nil
	}
	return lines()
}

// answer makes v, as JSON, the response.
func answer(ctx *fasthttp.RequestCtx, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyRaw(b)
	return nil
}
