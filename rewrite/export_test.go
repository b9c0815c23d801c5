package rewrite

import (
	"context"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// Debug reports whether each rewrite is recounted.
const Debug = debug

// OneOfMany gives a Rewriter that serves one request a small cache of counts instead of a
// megabyte.
func OneOfMany(rw *Rewriter) *Rewriter {
	rw.costs.Cache = tokens.NewCache(4)
	return rw
}

// Rewritten is Rewrite with its arguments and its result as values.
func (rw *Rewriter) Rewritten(ctx context.Context, p Policy, req *chat.Request, o Options) (res Result) {
	rw.Rewrite(ctx, &p, req, &o, &res)
	return res
}

// Recounted rewrites a request and recounts the whole result.
func (rw *Rewriter) Recounted(ctx context.Context, p Policy, req *chat.Request) (Result, error) {
	res := rw.Rewritten(ctx, p, req, Options{})
	return res, rw.recount(&job{policy: &p, req: req, model: rw.Models.Model(req.Model)}, &res)
}

// AppTags returns the number of Sidenote's tags in the messages.
func AppTags(r *chat.Request) int {
	return appTags(r, (&model.CostCounter{Cache: tokens.NewCache(1)}).Of(r))
}
