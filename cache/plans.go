package cache

import (
	"context"
	"encoding/json"
	"fmt"

	"sidenote/retrieval"
)

// Plans remember what planners answered. They are kept in this process only: what users ask
// never stands in a store that others can read.
type Plans struct{ cache Of[retrieval.Plan] }

// NewPlans returns Plans that are kept in a tier. observe may be nil.
func NewPlans(tier Tier, observe func(Event)) *Plans {
	return &Plans{ofJSON[retrieval.Plan](Planned, tier, observe)}
}

// Plan answers from what is kept under a tenant and all of key, else by find, whose errors are
// not kept. Concurrent callers share one find, which goes on when they leave, so that a late plan is
// there for the next; its context is that of the flight. After ctx has ended the error wraps its
// cause.
func (p *Plans) Plan(ctx context.Context, tenant string, key []string, find func(context.Context) (retrieval.Plan, error)) (retrieval.Plan, error) {
	return named(ctx, &p.cache, tenant, key, find)
}

// Scores remember what rerankers answered, in this process only.
type Scores struct{ cache Of[[]float64] }

// NewScores returns Scores that are kept in a tier. observe may be nil.
func NewScores(tier Tier, observe func(Event)) *Scores {
	return &Scores{ofJSON[[]float64](Scored, tier, observe)}
}

// Scores answers as Plan of Plans does. Nobody changes what it returns.
func (s *Scores) Scores(ctx context.Context, tenant string, key []string, find func(context.Context) ([]float64, error)) ([]float64, error) {
	return named(ctx, &s.cache, tenant, key, find)
}

// ofJSON keeps values as JSON in one tier.
func ofJSON[V any](kind Kind, tier Tier, observe func(Event)) Of[V] {
	return Of[V]{
		Kind: kind, Tiers: []Tier{tier}, Observe: observe, Empty: func(V) bool { return false },
		Encode: func(k Key, v V) []byte {
			body, err := json.Marshal(v)
			if err != nil {
				return nil
			}
			return Seal(k, body)
		},
		Decode: func(k Key, value []byte) (v V, err error) {
			body, err := Body(k, value)
			if err == nil && json.Unmarshal(body, &v) != nil {
				err = MismatchBody
			}
			return v, err
		},
	}
}

// named answers from what c keeps under a tenant and all of key, else by find.
func named[V any](ctx context.Context, c *Of[V], tenant string, key []string, find func(context.Context) (V, error)) (none V, _ error) {
	id := appendNames(c.Kind, append([]string{tenant}, key...))
	var l Lookup[V]
	if v, hit := c.Near(ctx, tenant, id, &l); hit {
		return v, nil
	}
	f, landed := c.Far(ctx, id, l, Search[V]{Find: func(ctx context.Context) (V, bool, error) {
		v, err := find(ctx)
		return v, true, err
	}})
	if !landed {
		return none, fmt.Errorf("%s: no answer in time: %w", c.Kind, context.Cause(ctx))
	}
	return f.Value, f.Err
}
