package admin

import (
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
)

// OverviewPath is the path of the overview of the last hour.
const OverviewPath = "/v1/overview"

// overview returns the overview of the last hour.
func (r request) overview(ctx *fasthttp.RequestCtx) error {
	var texts explain.Texts
	if r.Explain != nil {
		texts = r.Explain
	}
	return writeJSON(ctx, fasthttp.StatusOK, r.Overview.View(time.Now(), texts))
}
