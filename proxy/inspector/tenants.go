package inspector

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
)

// Policies gives access to the policies of the current configuration. It is safe for concurrent
// use.
type Policies interface {
	// Names returns the names of all policies, including those without tenants.
	Names() []string
	// Resolve returns the policy of a tenant and the origin of each value; with the name of a
	// policy, what the tenant would get under it. Tenant "" has no settings of its own, and needs
	// a policy. It returns nil if there is no such tenant or policy.
	Resolve(owner, policy string) (*tenant.Policy, []Setting)
}

// A Setting is a key of a policy with its value.
type Setting struct {
	Key   string   `json:"key"`   // "retrieval.top_k"
	Value string   `json:"value"` // strings as they are, all else as JSON; never a secret
	From  []string `json:"from"`  // where it is set, such as "sidenote.yaml:5:7 policy base"; empty for a default
}

// maxTenants limits the tenants on a page.
const maxTenants = 100

// A tenantsView is the data of tenants.html.
type tenantsView struct {
	Text     string // filter for the names of tenants
	Tenants  []tenantRow
	More     int // tenants that are not listed
	Policies []policyRow
	Ladder   []rungRow // empty if no request was reduced or refused in the last hour
}

// A tenantRow is a line of the list of tenants.
type tenantRow struct {
	*tenant.Policy
	Keyless bool // unidentified callers are treated as this tenant
}

// A policyRow is a line of the list of policies.
type policyRow struct {
	Name    string
	Tenants []string // the first tenants with the policy
	More    int
}

// A rungRow is a line of the table of limits applied.
type rungRow struct {
	explain.RungCount
	Means string
}

// rungs describes in words how a request is handled on a rung.
var rungs = map[budget.Rung]string{
	budget.NoStages: "answered by one call in place of stages", budget.FewerSources: "half as many sources, in half of context_tokens",
	budget.ShorterSources: "half as many sources, in a quarter of context_tokens", budget.NoPlanner: "nothing was planned",
	budget.NoSources: "as it came, without sources", budget.RefuseRung: "refused by a limit",
}

func tenantsPage(i *Inspector, v *visit) (any, error) {
	view := &tenantsView{Text: strings.TrimSpace(string(v.QueryArgs().Peek("text")))}
	if i.data.Tenants == nil || i.data.Policies == nil {
		return view, nil
	}
	of := map[string][]string{} // tenants by policy
	all, keyless := i.data.Tenants.Policies(), i.data.Tenants.ByName("")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		of[p.Name] = append(of[p.Name], name)
		switch {
		case !strings.Contains(name, strings.ToLower(view.Text)):
		case len(view.Tenants) == maxTenants:
			view.More++
		default:
			view.Tenants = append(view.Tenants, tenantRow{p, p == keyless})
		}
	}
	for _, name := range i.data.Policies.Names() {
		have := of[name]
		shown := have[:min(len(have), 5)]
		view.Policies = append(view.Policies, policyRow{name, shown, len(have) - len(shown)})
	}
	view.Ladder = ladderOf(&i.data)
	return view, nil
}

// ladderOf returns how often each rung was used in the last hour; nil if none was.
func ladderOf(d *Data) (rows []rungRow) {
	if d.Overview == nil {
		return nil
	}
	done := false
	for _, r := range d.Overview().Ladder {
		done = done || r.Requests > 0
		rows = append(rows, rungRow{r, rungs[r.Rung]})
	}
	if !done {
		return nil
	}
	return rows
}

// maxCounted limits the requests that are searched for those of a tenant.
const maxCounted = 1000

// A tenantLadder counts the rungs used by a tenant among the last requests kept.
type tenantLadder struct {
	Requests int // of the tenant
	Rows     []rungRow
}

func tenantLadderOf(d *Data, tenant string) *tenantLadder {
	if d.Requests == nil {
		return nil
	}
	l, times := &tenantLadder{}, map[budget.Rung]int{}
	first, end := d.Requests.Range()
	for n := end; n > max(first, end-min(end, maxCounted)); n-- {
		s, ok := d.Requests.Summary(n - 1)
		if !ok || s.Tenant != tenant {
			continue
		}
		l.Requests++
		switch {
		case s.Rung != "":
			times[budget.Rung(s.Rung)]++
		case s.Reason == report.ReasonRateLimit || s.Reason == report.ReasonQuota:
			times[budget.RefuseRung]++
		}
	}
	for _, rung := range append(budget.Rungs(), budget.RefuseRung) {
		if times[rung] > 0 {
			l.Rows = append(l.Rows, rungRow{explain.RungCount{Rung: rung, Requests: times[rung]}, rungs[rung]})
		}
	}
	return l
}

// A tenantView is the data of tenant.html and of policy.html.
type tenantView struct {
	*tenant.Policy
	Keyless  bool
	Mode     string
	Switched string   // the policy's mode, if the kill switch lowered it
	Tenants  []string // of a policy: the tenants that have it
	Usage    *usageView
	Ladder   *tenantLadder // nil: no requests are kept
	Settings []Setting
	JSON     string // URL of all settings with complete texts
}

func tenantPage(i *Inspector, v *visit) (any, error) {
	p, settings, err := resolved(&i.data, v.name, "")
	if err != nil {
		return nil, err
	}
	limited, from := p.Limited(i.data.Modes, time.Now())
	view := &tenantView{
		Policy: p, Mode: limited.Rewrite.Mode.String(), Switched: from, Usage: usageOf(&i.data, p), Ladder: tenantLadderOf(&i.data, p.Tenant), Settings: settings, JSON: tenantAddress(p.Tenant) + "/json",
	}
	if i.data.Tenants != nil {
		keyless := i.data.Tenants.ByName("")
		view.Keyless = keyless != nil && keyless.Tenant == p.Tenant
	}
	return view, nil
}

func policyPage(i *Inspector, v *visit) (any, error) {
	p, settings, err := resolved(&i.data, "", v.name)
	if err != nil {
		return nil, err
	}
	view := &tenantView{Policy: p, Mode: p.Rewrite.Mode.String(), Settings: settings, JSON: policyAddress(p.Name) + "/json"}
	if i.data.Tenants != nil {
		all := i.data.Tenants.Policies()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if all[name].Name == p.Name && len(view.Tenants) < maxTenants {
				view.Tenants = append(view.Tenants, name)
			}
		}
	}
	return view, nil
}

// resolved returns the result of Policies.Resolve, or an error if there is none.
func resolved(d *Data, owner, policy string) (*tenant.Policy, []Setting, error) {
	if d.Policies != nil {
		if p, settings := d.Policies.Resolve(owner, policy); p != nil {
			return p, settings, nil
		}
	}
	what := "tenant " + owner
	if policy != "" {
		what = "policy " + policy
	}
	return nil, nil, &problem{fasthttp.StatusNotFound, fmt.Sprintf("There is no %s in the configuration in force.", cut(what, "").Text)}
}

// settingsJSON answers with the settings of a tenant, or of a policy without a tenant.
func settingsJSON(i *Inspector, v *visit, tenant, policy string) error {
	_, settings, err := resolved(&i.data, tenant, policy)
	if err != nil {
		return err
	}
	return answerJSON(v, settings)
}

// answerJSON answers with value as indented JSON.
func answerJSON(v *visit, value any) error {
	b, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode what is known: %w", err)
	}
	v.Response.Header.SetContentType("application/json")
	v.Response.SetBodyRaw(b)
	return nil
}
