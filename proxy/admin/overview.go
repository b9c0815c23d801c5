package admin

import (
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
)

// OverviewPath is the path of what the requests of the last hour came to.
const OverviewPath = "/v1/overview"

// overviewed shows what the requests of the last hour came to.
func overviewed(h *Handler, ctx *fasthttp.RequestCtx) error {
	var texts explain.Texts
	if h.Explain != nil {
		texts = h.Explain
	}
	return writeJSON(ctx, fasthttp.StatusOK, h.Overview.View(time.Now(), texts))
}
