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
	return &Plans{Of[retrieval.Plan]{
		Kind: Planned, Tiers: []Tier{tier}, Observe: observe,
		Encode: encodePlan, Decode: decodePlan, Empty: func(retrieval.Plan) bool { return false },
	}}
}

// Plan answers from what is kept under a tenant and all of key, else by find, whose errors are
// not kept. Concurrent callers share one find, which goes on when they leave; its context is
// that of the flight. After ctx has ended the error wraps its cause.
func (p *Plans) Plan(ctx context.Context, tenant string, key []string, find func(context.Context) (retrieval.Plan, error)) (retrieval.Plan, error) {
	id := appendNames(Planned, append([]string{tenant}, key...))
	var l Lookup[retrieval.Plan]
	if plan, hit := p.cache.Near(ctx, tenant, id, &l); hit {
		return plan, nil
	}
	f, landed := p.cache.Far(ctx, id, l, Search[retrieval.Plan]{Find: func(ctx context.Context) (retrieval.Plan, bool, error) {
		plan, err := find(ctx)
		return plan, true, err
	}})
	if !landed {
		return retrieval.Plan{}, fmt.Errorf("%s: no answer in time: %w", Planned, context.Cause(ctx))
	}
	return f.Value, f.Err
}

func encodePlan(k Key, p retrieval.Plan) []byte {
	body, err := json.Marshal(p)
	if err != nil {
		return nil
	}
	return Seal(k, body)
}

func decodePlan(k Key, value []byte) (p retrieval.Plan, err error) {
	body, err := Body(k, value)
	if err != nil {
		return p, err
	}
	if json.Unmarshal(body, &p) != nil {
		return retrieval.Plan{}, MismatchBody
	}
	return p, nil
}
