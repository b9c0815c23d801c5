package admin

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// metrics answers with the metrics in the format that the scraper asks for.
func (t Telemetry) metrics(ctx *fasthttp.RequestCtx) error {
	if n := ctx.Request.Header.ContentLength(); n > 0 || n == -1 {
		// fasthttp's adaptor would read a body of any size.
		ctx.SetConnectionClose()
		return &tenant.APIError{Reason: rewrite.ReasonTooLarge, Message: "A scrape has no body."}
	}
	fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(t.Metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))(ctx)
	return nil
}

// healthz reports that the process runs.
func (t Telemetry) healthz(ctx *fasthttp.RequestCtx) error {
	return writeJSON(ctx, fasthttp.StatusOK, map[string]string{"status": "ok"})
}

// readyz reports whether requests can be served, or why not yet. A helper that is down is listed
// but does not make the answer "not ready": requests are served without it, and no other replica
// would have it either.
func (t Telemetry) readyz(ctx *fasthttp.RequestCtx) error {
	missing, trouble := linesOf(t.Ready), linesOf(t.Trouble)
	trouble = slices.DeleteFunc(trouble, func(line string) bool { return slices.Contains(missing, line) })
	status, code := "ready", fasthttp.StatusOK
	switch {
	case len(missing) > 0:
		status, code = "not ready", fasthttp.StatusServiceUnavailable
	case len(trouble) > 0:
		status = "degraded"
	default:
		return writeJSON(ctx, code, map[string]any{"status": status})
	}
	return writeJSON(ctx, code, map[string]any{"status": status, "reasons": slices.Concat(missing, trouble)})
}

func linesOf(lines func() []string) []string {
	if lines == nil {
		return nil
	}
	return lines()
}

// writeJSON makes v, as JSON, the response.
func writeJSON(ctx *fasthttp.RequestCtx, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyRaw(b)
	return nil
}
