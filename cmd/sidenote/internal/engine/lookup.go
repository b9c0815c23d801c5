package engine

import (
	"context"
	"slices"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/proxy/lookup"
	"sidenote/proxy/planning"
	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/followup"
	"sidenote/rewrite"
)

// lookupOf is what the admin port tells of knowledge.
func lookupOf(e *Engine, cfg *config.Config, rw *rewrite.Rewriter, tenants *proxy.Directory, plans *planning.Planners) *lookup.Knowledge {
	return &lookup.Knowledge{
		Tenants: tenants, Bases: e.catalogue.ids, Thresholds: config.Thresholds(cfg.Knowledge, cfg.KnowledgeNames()), Retriever: rw.Retriever, Planners: plans,
		Reader: e.catalogue, Stores: e.view,
		Explainer: func(ctx context.Context, q retrieval.Query) (retrieval.Explained, error) { return Explain(ctx, e, q) },
	}
}

// Explain tells why the embedded bases of a query answer it as they do.
func Explain(ctx context.Context, e *Engine, q retrieval.Query) (told retrieval.Explained, err error) {
	q.Bases = slices.DeleteFunc(slices.Clone(q.Bases), func(ref retrieval.Ref) bool {
		base := e.catalogue.embedded(ref.Knowledge)
		return base == nil || base.Content() == nil
	})
	asked := retrieval.Func(func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		told, err = e.catalogue.group.Explain(ctx, q)
		return retrieval.Result{}, err
	})
	prepare := retrieval.Prepare{Next: asked, Ref: e.catalogue.Ref, Terms: new(analysis.Recent).Terms, Join: followup.Join}
	_, err = prepare.Retrieve(ctx, q)
	return told, err
}
