package main

import (
	"fmt"
	"slices"
	"sync"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/replay"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/tenant"
)

// replayedPolicies resolves the policies of recorded requests and prepares their bases. It is safe
// for concurrent use.
type replayedPolicies struct {
	app    *app
	cfg    *config.Config
	engine *server.Engine

	mu    sync.Mutex
	found map[[2]string]resolvedPolicy // by tenant and policy
}

type resolvedPolicy struct {
	policy *tenant.Policy
	err    error
}

// resolve returns the policy of a tenant's requests as if the tenant used the named policy. No search
// under it is cut short.
func (p *replayedPolicies) resolve(name, policy string) (*tenant.Policy, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [2]string{name, policy}
	r, ok := p.found[key]
	if !ok {
		if r.policy, r.err = p.find(name, policy); r.err == nil {
			r.policy = withoutHurry(r.policy)
			bases := r.policy.Rewrite.Knowledge
			p.engine.Bases.RefreshEngines(p.app.ctx, bases)
			p.engine.Bases.AwaitFloor(p.app.ctx, bases)
		}
		p.found[key] = r
	}
	return r.policy, r.err
}

func (p *replayedPolicies) find(name, policy string) (*tenant.Policy, error) {
	own, ok := p.cfg.Tenant(config.Name(name))
	switch {
	case !ok:
		return nil, fmt.Errorf("%q: %w", name, replay.ErrTenant)
	case own.Name == policy:
		return &own, nil
	}
	if of, _ := (server.Policies{Config: p.cfg}).Resolve(name, policy); of != nil {
		return of, nil
	}
	return nil, fmt.Errorf("%q: %w", policy, replay.ErrPolicy)
}

// withoutHurry returns a policy whose searches have searchDeadline: nobody waits for them, and those of
// all processors at once take longer.
func withoutHurry(p *tenant.Policy) *tenant.Policy {
	out := *p
	out.Rewrite.Search.Deadline = searchDeadline
	out.Overrides = slices.Clone(p.Overrides)
	for i := range out.Overrides {
		out.Overrides[i].Policy = withoutHurry(out.Overrides[i].Policy)
	}
	return &out
}
