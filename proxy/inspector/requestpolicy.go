package inspector

import (
	"fmt"

	"sidenote/cache/budget"
	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
)

// A requestPolicy is what parts/requestpolicy.html is made of: the policy that a request had.
type requestPolicy struct {
	Tenant, Name string
	Now          *tenant.Policy // of the tenant at present; nil: there is no such tenant any more
	Known        bool           // the request had it, too; else it has changed since
	Override     bool           // of the policy, which held for the request
	Settings     []Setting      // of the policy that somebody wrote, where it is known
	Unshown      int            // other settings
	Narrowed     []difference
	Rung, Means  string // of the ladder; "" if the request had room as it was
	JSON         string // the address of the settings
	Ask          string // the address where the request can be asked again; "" if it cannot
}

// A difference is what differs between two: what a policy says and what was in force for a request,
// or a request as it was and as it would be.
type difference struct{ Key, Before, After string }

// requestPolicyOf returns the policy of a request, with as many settings as there is room for; nil if it
// had none, or nobody knows any.
func requestPolicyOf(d *Data, e *explain.Explanation, left *room) *requestPolicy {
	if d.Policies == nil || e.Tenant == "" || e.Policy == "" {
		return nil
	}
	r := &requestPolicy{Tenant: e.Tenant, Name: e.Policy, Rung: e.Rung, Means: rungs[budget.Rung(e.Rung)], JSON: tenantAddress(e.Tenant) + "/json"}
	var settings []Setting
	if r.Now, settings = d.Policies.Resolve(e.Tenant, ""); r.Now == nil {
		return r
	}
	if d.DryRun != nil {
		r.Ask = askAddress(e.ID)
	}
	for p := range r.Now.All {
		if p.Hash == e.PolicyHash {
			r.Known, r.Override, r.Narrowed = true, p != r.Now, narrowed(p, e)
			break
		}
	}
	for _, s := range settings {
		if r.Known && len(s.From) > 0 && left.take(s.size()) {
			r.Settings = append(r.Settings, s)
		}
	}
	r.Unshown = len(settings) - len(r.Settings)
	return r
}

// size is how much of a page a setting takes at most.
func (s *Setting) size() int {
	n := 300 + pageSize(s.Key) + pageSize(cut(s.Value, "").Text)
	for _, from := range s.From {
		n += 100 + pageSize(cut(from, "").Text)
	}
	return n
}

// narrowed lists what was less for a request than its policy says: by its options, by a rung of the
// ladder, or as the model's window has no more room.
func narrowed(p *tenant.Policy, e *explain.Explanation) (list []difference) {
	add := func(key, policy, request string) {
		if policy != request {
			list = append(list, difference{key, policy, request})
		}
	}
	if e.Mode != "" {
		add("mode", p.Rewrite.Mode.String(), e.Mode)
	}
	if len(e.Knowledge) > 0 {
		searched := make([]string, len(e.Knowledge))
		for n, base := range e.Knowledge {
			searched[n] = base.ID
		}
		if len(searched) < len(p.Rewrite.Knowledge) {
			add("knowledge", join(p.Rewrite.Knowledge), join(searched))
		}
	}
	if l := e.Ledger; l != nil {
		add("context_tokens", fmt.Sprint(p.Rewrite.ContextTokens), fmt.Sprint(l.Budget))
		if l.Filter != nil { // else it may be too long to be kept
			add("filters", p.Rewrite.Filter.String(), l.Filter.String())
		}
	}
	return list
}
