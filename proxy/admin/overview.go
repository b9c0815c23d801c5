package admin

import (
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
)

// OverviewPath is the path of the overview of the last hour.
const OverviewPath = "/v1/overview"

// overviewed returns the overview of the last hour.
func overviewed(h *Handler, ctx *fasthttp.RequestCtx) error {
	var texts explain.Texts
	if h.Explain != nil {
		texts = h.Explain
	}
	return writeJSON(ctx, fasthttp.StatusOK, h.Overview.View(time.Now(), texts))
}
