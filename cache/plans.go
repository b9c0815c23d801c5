package cache

import (
	"context"
	"encoding/json"
	"fmt"

	"sidenote/retrieval"
)

// Plans cache the answers of planners. They are kept only in this process, so that questions of
// users are never in a store that others can read.
type Plans struct{ cache Tiered[retrieval.Plan] }

// NewPlans returns Plans that are cached in tier. observe may be nil.
func NewPlans(tier Tier, observe func(Event)) *Plans {
	return &Plans{ofJSON[retrieval.Plan](Planned, tier, observe)}
}

// Plan returns the plan cached for a tenant and key, or calls find. Errors are not cached.
// Concurrent callers share one call of find, which runs with the context of the flight and
// continues when they leave, so that a late plan is there for the next request. If ctx ends, the
// error wraps its cause.
func (p *Plans) Plan(ctx context.Context, tenant string, key []string, find func(context.Context) (retrieval.Plan, error)) (retrieval.Plan, error) {
	return named(ctx, &p.cache, tenant, key, find)
}

// Scores cache the answers of rerankers, only in this process.
type Scores struct{ cache Tiered[[]float64] }

// NewScores returns Scores that are cached in tier. observe may be nil.
func NewScores(tier Tier, observe func(Event)) *Scores {
	return &Scores{ofJSON[[]float64](Scored, tier, observe)}
}

// Scores works like Plans.Plan. The result must not be changed.
func (s *Scores) Scores(ctx context.Context, tenant string, key []string, find func(context.Context) ([]float64, error)) ([]float64, error) {
	return named(ctx, &s.cache, tenant, key, find)
}

// ofJSON returns a Tiered that caches values as JSON in one tier.
func ofJSON[V any](kind Kind, tier Tier, observe func(Event)) Tiered[V] {
	return Tiered[V]{
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

// named returns the value that c has for a tenant and key, or calls find.
func named[V any](ctx context.Context, c *Tiered[V], tenant string, key []string, find func(context.Context) (V, error)) (none V, _ error) {
	id := appendNames(c.Kind, append([]string{tenant}, key...))
	var l Lookup[V]
	if v, hit := c.Decoded(ctx, tenant, id, &l); hit {
		return v, nil
	}
	f, landed := c.Load(ctx, id, l, Search[V]{Find: func(ctx context.Context) (V, bool, error) {
		v, err := find(ctx)
		return v, true, err
	}})
	if !landed {
		return none, fmt.Errorf("%s: no answer in time: %w", c.Kind, context.Cause(ctx))
	}
	return f.Value, f.Err
}
