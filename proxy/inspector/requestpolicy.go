package inspector

import (
	"fmt"

	"sidenote/cache/budget"
	"sidenote/proxy/experiment"
	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
)

// A requestPolicy is the data of parts/requestpolicy.html: the policy of a request.
type requestPolicy struct {
	Tenant, Name string
	Now          *tenant.Policy // of the tenant now; nil if there is no such tenant any more
	Known        bool           // the request had the same policy; otherwise it has changed since
	Override     bool           // an override of the policy applied to the request
	Settings     []Setting      // settings that are not defaults, if the policy is known
	Unshown      int            // number of other settings
	Narrowed     []difference
	Rung, Means  string // rung of the ladder and its description; "" if the request was not reduced
	JSON         string // URL of the settings
	Ask          string // URL for asking the request again; "" if that is not possible
}

// A difference holds two values of a key: of a policy and of a request, or of a request and its
// dry run.
type difference struct{ Key, Before, After string }

// requestPolicyOf returns the policy of a request, with as many settings as fit; nil if there is
// none or it is unknown.
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
	tried := e.Experiment != nil && e.Experiment.Arm == string(experiment.B)
	if tried {
		_, settings = d.Policies.Resolve(e.Tenant, e.Policy)
	}
	for p := range r.Now.All {
		if p.Hash == e.PolicyHash {
			r.Known, r.Override, r.Narrowed = true, p != r.Now && !tried, narrowed(p, e)
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

// size returns the maximum bytes of a setting in a page.
func (s *Setting) size() int {
	n := 300 + pageSize(s.Key) + pageSize(cut(s.Value, "").Text)
	for _, from := range s.From {
		n += 100 + pageSize(cut(from, "").Text)
	}
	return n
}

// narrowed lists the settings of the policy that were lower for a request: because of its options,
// a rung of the ladder, or the model's window.
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
		if l.Moved != "" {
			add("placement", string(p.Rewrite.Placement), string(l.Moved))
		}
		if l.Filter != nil { // otherwise it may be too long to be kept
			add("filters", p.Rewrite.Filter.String(), l.Filter.String())
		}
	}
	return list
}
