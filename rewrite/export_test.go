package rewrite

import "context"

// Debug tells whether each rewrite is recounted.
const Debug = debug

// Recounted rewrites a request and counts anew, whole, what became of it.
func (rw *Rewriter) Recounted(ctx context.Context, p Policy, req *Request) (Result, error) {
	res := rw.Rewrite(ctx, p, req, Options{})
	return res, rw.recount(&job{policy: p, req: req, model: rw.Models.Model(req.Model)}, &res)
}

// What looks for the end of a string.
var (
	Inside      = inside
	InsideWords = insideWords
)
