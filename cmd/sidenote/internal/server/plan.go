package server

import (
	"context"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/store"
	"sidenote/retrieval/services"
)

// An EmbeddingEstimate is what embedding a base would take.
type EmbeddingEstimate struct {
	Chunks int `json:"chunks"`
	Kept   int `json:"kept"`   // need not be sent: a vector of the same text exists
	Inputs int `json:"inputs"` // to be sent
	Tokens int `json:"tokens"` // of the inputs, approximately
}

// An EmbeddingPlanner estimates the embedding of bases, one after the other. It sends nothing.
type EmbeddingPlanner struct {
	Client *services.Embedder
	Kept   *store.Vectors // in the state folder; nil for none

	seen map[store.VectorKey]bool // in earlier bases
}

// Base estimates one base.
func (p *EmbeddingPlanner) Base(ctx context.Context, c *knowledge.Content) (e EmbeddingEstimate, err error) {
	if p.seen == nil {
		p.seen = map[store.VectorKey]bool{}
	}
	err = c.Guard(func() (err error) {
		e, err = p.base(ctx, c)
		return err
	})
	return e, err
}

func (p *EmbeddingPlanner) base(ctx context.Context, c *knowledge.Content) (e EmbeddingEstimate, err error) {
	var keys []store.VectorKey
	var passages []string
	look := func() error {
		found := map[store.VectorKey][]byte{}
		if p.Kept != nil {
			if found, err = p.Kept.Get(ctx, keys...); err != nil {
				return err
			}
		}
		for i, key := range keys {
			if found[key] != nil || p.seen[key] {
				e.Kept++
				continue
			}
			p.seen[key] = true
			e.Inputs, e.Tokens = e.Inputs+1, e.Tokens+p.Client.PassageTokens(passages[i])
		}
		keys, passages = keys[:0], passages[:0]
		return ctx.Err()
	}
	space := p.Client.Space()
	for passage := range c.Passages() {
		e.Chunks++
		keys, passages = append(keys, space.Key(passage)), append(passages, passage)
		if len(keys) == pageSize {
			if err := look(); err != nil {
				return e, err
			}
		}
	}
	return e, look()
}
