package admin

import "github.com/valyala/fasthttp"

// ExplainPath and the id of a request are the path of what is known of it.
const ExplainPath = "/v1/explain/"

// maxID is how much of an id an error repeats, in bytes.
const maxID = 64

// explained shows what is known of the request with that id, of any tenant: it is for
// those who run Sidenote.
func explained(h *Handler, ctx *fasthttp.RequestCtx, id string) error {
	if h.Explain == nil {
		return Refuse(fasthttp.StatusNotFound, "not_found", "Nothing is known of the request %.*q: explain.keep is 0, so that none are kept.", maxID, id)
	}
	e, have, keep := h.Explain.Find(id)
	if e == nil {
		return Refuse(fasthttp.StatusNotFound, "not_found", "Nothing is known of the request %.*q, or not yet; of the last %d requests (explain.keep), %d are known.", maxID, id, keep, have)
	}
	return writeJSON(ctx, fasthttp.StatusOK, e)
}
