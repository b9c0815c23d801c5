package admin

import (
	"github.com/valyala/fasthttp"

	"sidenote/proxy/audit"
)

// ExplainPath, followed by the id of a request, is the path of its explanation.
const ExplainPath = "/v1/explain/"

// maxID limits the bytes of an id that an error repeats.
const maxID = 64

// explain returns the explanation of the request with that id, of any tenant: it is for operators.
func (r request) explain(ctx *fasthttp.RequestCtx, id string) error {
	if r.Explain == nil {
		return Refuse(fasthttp.StatusNotFound, "not_found", "Request %.*q is not recorded: explain.keep is 0, so none are kept.", maxID, id)
	}
	e, have, keep := r.Explain.Find(id)
	if e == nil {
		return Refuse(fasthttp.StatusNotFound, "not_found", "Request %.*q is not recorded, or not yet; of the last %d requests (explain.keep), %d are kept.", maxID, id, keep, have)
	}
	if e.HasTexts() {
		r.record(ctx, audit.Event{Action: audit.Explain, Object: e.ID, Result: audit.OK})
	}
	return writeJSON(ctx, fasthttp.StatusOK, e)
}
