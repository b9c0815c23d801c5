package admin

import (
	"fmt"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
)

// ExplainPath and the id of a request are the path of what is known of it.
const ExplainPath = "/v1/explain/"

// maxID is how much of an id an error repeats, in bytes.
const maxID = 64

// explained shows what is known of the request with that id, of any tenant: it is for
// those who run Sidenote.
func explained(ring *explain.Ring, id string) func(*fasthttp.RequestCtx) error {
	return func(ctx *fasthttp.RequestCtx) error {
		missing := &Refusal{Status: fasthttp.StatusNotFound, Code: "not_found"}
		if ring == nil {
			missing.Message = fmt.Sprintf("Nothing is known of the request %.*q: explain.keep is 0, so that none are kept.", maxID, id)
			return missing
		}
		e, have, keep := ring.Find(id)
		if e == nil {
			missing.Message = fmt.Sprintf("Nothing is known of the request %.*q, or not yet; of the last %d requests (explain.keep), %d are known.", maxID, id, keep, have)
			return missing
		}
		return writeJSON(ctx, fasthttp.StatusOK, e)
	}
}
