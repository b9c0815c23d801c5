package server

import (
	"context"
	"fmt"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/tools"
)

// Toolbox returns the tools, which search through the caches and under the caller's filters like
// requests.
func (e *Engine) Toolbox() *tools.Box {
	return &tools.Box{
		Knowledge: tools.Knowledge{Retriever: e.Rewriter.Retriever, Reader: e.catalogue, Terms: analysis.Terms},
		Bases: func() []tools.Base {
			cfg := e.Running()
			return config.ToolBases(cfg.Knowledge, cfg.KnowledgeNames())
		},
	}
}

// urlOf returns the attribute "url" of a document in an embedded base or in an engine, or "".
func (c *catalogue) urlOf(id, doc string) string {
	if base := c.inEngine(id); base != nil {
		return base.URL(doc)
	}
	base := c.embedded(id)
	if base == nil || base.Content() == nil {
		return ""
	}
	held, _ := knowledge.Lookup(base.Content(), doc)
	url, _ := held.Attributes["url"].(string)
	return url
}

// Passage returns the text around a passage of a document, in any base.
func (c *catalogue) Passage(ctx context.Context, q retrieval.Query, p retrieval.Passage) ([]retrieval.Source, error) {
	switch base, _ := c.base(p.Knowledge); base := base.(type) {
	case *knowledge.Base:
		return c.group.Passage(ctx, q, p)
	case retrieval.Reader:
		return base.Passage(ctx, q, p)
	}
	return nil, fmt.Errorf("%s: %w", p.Knowledge, retrieval.ErrNoHit)
}

// kitOf returns what runs the tool calls of models for tenants. Turns are kept if a tenant has
// tools.
func kitOf(e *Engine, of tenant.Tenants) *proxy.RoundsKit {
	kit := &proxy.RoundsKit{Box: e.Toolbox()}
	for _, p := range tenant.NewDirectory(of).Policies() {
		for one := range p.All {
			if len(one.Tools.Offer) > 0 {
				kit.Turns = e.Turns()
			}
		}
	}
	return kit
}
