package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/followup"
	"sidenote/rewrite"
)

// lookupOf returns the view of the knowledge bases for the admin port.
func lookupOf(e *Engine, cfg *config.Config, rw *rewrite.Rewriter, tenants *tenant.Directory, plans *proxy.Planners) *explain.Knowledge {
	return &explain.Knowledge{
		Tenants: tenants, Bases: e.catalogue.ids, Thresholds: config.Thresholds(cfg.Knowledge, cfg.KnowledgeNames()), Hybrid: config.DefaultHybrid(cfg), Retriever: rw.Retriever, Planners: plans,
		Reader: e.catalogue, Stores: e.view, Describe: describer(e, cfg), Model: rw.Models.Model,
		Explainer: func(ctx context.Context, q retrieval.Query) (retrieval.Explained, error) { return Explain(ctx, e, q) },
	}
}

// firstOf returns the id of the first base, "" if there is none.
func firstOf(bases []retrieval.Ref) string {
	if len(bases) == 0 {
		return ""
	}
	return bases[0].Knowledge
}

// Explain returns how the bases of a query arrive at their results: the embedded ones, or if the first
// one is in an engine elsewhere, those in that engine.
func Explain(ctx context.Context, e *Engine, q retrieval.Query) (told retrieval.Explained, err error) {
	explain := e.catalogue.group.Explain
	if base := e.catalogue.inEngine(firstOf(q.Bases)); base != nil {
		explain = base.Engine().Explain
		q.Bases = slices.DeleteFunc(slices.Clone(q.Bases), func(ref retrieval.Ref) bool {
			other := e.catalogue.inEngine(ref.Knowledge)
			return other == nil || other.Engine() != base.Engine()
		})
	} else {
		q.Bases = slices.DeleteFunc(slices.Clone(q.Bases), func(ref retrieval.Ref) bool {
			base := e.catalogue.embedded(ref.Knowledge)
			return base == nil || base.Content() == nil
		})
	}
	asked := retrieval.Func(func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		told, err = explain(ctx, q)
		return retrieval.Result{}, err
	})
	prepare := &retrieval.Prepare{Next: asked, Ref: e.catalogue.Ref, HasTerms: e.catalogue.group.Analysed.HasTerms, Join: followup.Join}
	_, err = prepare.Retrieve(ctx, q)
	return told, err
}

// describer returns a function that describes the status of a base.
func describer(e *Engine, cfg *config.Config) func(ctx context.Context, id string) (explain.Base, error) {
	if m := e.manager(cfg); m != nil {
		return m.Base
	}
	return func(_ context.Context, id string) (explain.Base, error) {
		s, ok := e.view.Store(id)
		if !ok {
			return explain.Base{}, fmt.Errorf("there is no knowledge base %q", id)
		}
		k, named := cfg.Knowledge[config.Name(id)]
		b := explain.Base{
			ID: id, Object: "knowledge", Engine: cmp.Or(k.Engine, config.EngineEmbedded), Status: explain.StatusReady, Configured: named,
			Documents: s.Files, Chunks: s.Chunks, Bytes: s.Bytes, Generation: s.Generation, ChangedAt: admin.Unix(s.Changed),
		}
		if b.Generation == "" {
			b.Status = explain.StatusIndexing
		}
		if embedded := e.catalogue.embedded(id); embedded != nil && embedded.Content() != nil {
			if b.Chunks = embedded.Content().Chunks(); embedded.Content().Partial() {
				b.Status, b.Reason = explain.StatusPartial, inPart
			}
		}
		if store := e.Bases.stores[id]; store != nil {
			b.Status, _ = troubled(store, b.Status)
		}
		if x := cmp.Or(e.Bases.made.Load().indexers[id], e.Bases.writers[id]); x != nil {
			x.status().describe(&b)
		}
		return b, nil
	}
}
