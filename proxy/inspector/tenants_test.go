package inspector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sidenote/cache/budget"
	"sidenote/proxy/inspector"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
)

// policies are the policies of made-up tenants.
type policies map[string]*tenant.Policy

func (p policies) Names() []string { return []string{"base", "careful", hostile} }

func (p policies) Resolve(name, policy string) (*tenant.Policy, []inspector.Setting) {
	of := p[name]
	switch {
	case policy == "careful" || policy == "base" || policy == hostile:
		under := tenant.Policy{Tenant: name, Upstream: "openai", Rewrite: rewrite.DefaultPolicy()}
		if of != nil {
			under = *of
		} else if name != "" {
			return nil, nil
		}
		under.Name, under.Hash = policy, "0f"+policy
		if policy == "careful" {
			under.Rewrite.ContextTokens = 500
		}
		of = &under
	case of == nil || policy != "":
		return nil, nil
	}
	settings := []inspector.Setting{
		{Key: "mode", Value: of.Rewrite.Mode.String()},
		{Key: "knowledge", Value: `["handbook","faq"]`, From: []string{"sidenote.yaml:16:5 tenant acme"}},
		{Key: "context_tokens", Value: fmt.Sprint(of.Rewrite.ContextTokens), From: []string{"sidenote.yaml:6:5 policy base env TOKENS"}},
		{Key: "filters", Value: `[{"type":"eq"}]`, From: []string{"sidenote.yaml:8:5 policy base", "sidenote.yaml:17:5 tenant acme"}},
		{Key: "empty_answer"},
	}
	if name == "strange" || policy == hostile {
		settings = append(settings, inspector.Setting{Key: "template", Value: hostile + strings.Repeat("x", 256<<10), From: []string{hostile}})
	}
	return of, settings
}

// tenants returns acme, which has limits, and others, which own the requests of many.
func tenants() inspector.Data {
	policy := func(of, name string) *tenant.Policy {
		p := &tenant.Policy{Name: name, Hash: "c3ca2702", Tenant: of, Upstream: "openai", Rewrite: rewrite.DefaultPolicy()}
		p.Rewrite.Tenant, p.Rewrite.Upstream, p.Rewrite.Knowledge = of, "openai", []string{"handbook", "faq"}
		return p
	}
	acme, open := policy("acme", "base"), policy("open", "base")
	acme.Models = tenant.Models{"gpt-*", "o3"}
	acme.Rewrite.Filter = &filter.Filter{Type: filter.Eq, Key: "audience", Value: "public"}
	acme.Budget.Limits = budget.Limits{budget.RequestsPerMinute: 600, budget.TokensPerDay: 20_000, budget.MoneyPerMonth: 1500 * budget.USD, budget.ParallelRequests: 2}
	strange := policy("strange", hostile)
	strange.Upstream, strange.Models, strange.Rewrite.Knowledge = hostile, tenant.Models{hostile}, []string{hostile, "a/b?c"}
	all := policies{"acme": acme, "open": open, "strange": strange}
	for i := range 120 {
		name := fmt.Sprintf("tenant%03d", i)
		all[name] = policy(name, "base")
	}
	of := tenant.Tenants{Unknown: open}
	for _, p := range all {
		of.Named = append(of.Named, p)
	}
	data := many()
	cheaper, refusedByLimit := requestOf("cheaper"), refused()
	cheaper.Budget.Rung, refusedByLimit.Reason = "fewer_sources", report.ReasonQuota
	data.Overview = lastHour(nil, cheaper, cheaper, refusedByLimit)
	lowered := whole()
	lowered.ID, lowered.Mode, lowered.Budget.Rung = "lowered", "shadow", "fewer_sources"
	lowered.Rewrite.Ledger.Budget, lowered.Rewrite.Retrieval.Bases = 1000, []retrieval.Ref{{Knowledge: "handbook", Generation: "g1"}}
	data.Requests.Record(lowered)
	data.Tenants, data.Policies, data.Usage = tenant.NewDirectory(of), all, used(acme.Budget.Limits)
	return data
}

// used returns a ledger in which acme has used some of its limits, and one call is in progress.
func used(limits budget.Limits) *budget.Memory {
	now := time.Date(2026, 3, 10, 12, 0, 30, 0, time.UTC)
	ledger := budget.NewMemory(func() time.Time { return now })
	for i, kind := range []budget.Kind{budget.Chat, budget.Planner, budget.Chat} {
		r := budget.Reservation{Tenant: "acme", ID: fmt.Sprint(i), Kind: kind, Estimate: budget.Amount{Requests: 1, Tokens: 6000, Money: 250 * budget.USD}, Limits: limits, Lease: time.Minute}
		if d, err := ledger.Reserve(context.Background(), r); err != nil || !d.Granted {
			panic(fmt.Sprint(d, err))
		}
		if i < 2 {
			if _, err := ledger.Settle(context.Background(), budget.Settlement{Ticket: r.Ticket(), Actual: budget.Amount{Requests: 1, Tokens: 7000, Injected: 900, Money: 100_500_000_000}}); err != nil {
				panic(err)
			}
		}
	}
	return ledger
}

// A broken ledger cannot be read.
type broken struct{}

func (broken) Usage(context.Context, string, budget.Limits) (budget.Usage, error) {
	return budget.Usage{}, errors.New("down")
}

// The tenants are listed with their policies, including a policy without tenants, and the limits
// applied.
func TestTenants(t *testing.T) {
	tb := openTab(t, serve(t, tenants(), nil))
	rows := func(table int) string {
		t.Helper()
		return eval[string](tb, fmt.Sprintf(`[...document.querySelectorAll("table")[%d].tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent.trim()).join("|")).join("\n")`, table))
	}
	tb.open("/tenants")
	if got := rows(0); strings.Count(got, "\n") != 99 || !strings.Contains(got, "acme|base c3ca2702|inject|handbook, faq|2,000|openai\n") || !strings.Contains(got, "open also callers without a key|base") {
		t.Errorf("tenants: %s", got)
	}
	if got := eval[string](tb, `document.querySelector("caption").textContent`); got != "By name; 23 more are not shown" {
		t.Errorf("the list: %s", got)
	}
	if got := rows(1); !strings.HasPrefix(got, "base|acme, open, tenant000, tenant001, tenant002, and 117 more\ncareful|unused (") {
		t.Errorf("policies: %s", got)
	}
	if got := rows(2); !strings.Contains(got, "fewer_sources|2|half as many sources") || !strings.Contains(got, "refuse|1|") || !strings.Contains(got, "no_sources|0|") {
		t.Errorf("ladder: %s", got)
	}
	tb.open("/tenants?text=ACM")
	if got := rows(0); strings.Count(got, "\n") != 0 || !strings.HasPrefix(got, "acme|") {
		t.Errorf("filtered: %s", got)
	}
}

// The page of a tenant shows its policy, with the origin of each value, and how much of each limit
// is used.
func TestTenant(t *testing.T) {
	tb := openTab(t, serve(t, tenants(), nil))
	tb.open("/tenants/acme")
	cells := func(table int) string {
		t.Helper()
		return eval[string](tb, fmt.Sprintf(`[...document.querySelectorAll("table")[%d].tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent.trim()).join("|")).join("\n")`, table))
	}
	if got, want := cells(0), "requests_per_minute|3|600|597|1 s\ntokens_per_day|20,000 full|20,000|0|12 h 0 min\nusd_per_month|$451|$1,500|$1,049|21 days 12 h\nmax_parallel_requests|1|2|1|–"; got != want {
		t.Errorf("limits:\n%s\nwant\n%s", got, want)
	}
	if got := eval[string](tb, `[...document.querySelectorAll("svg.filled rect")].map((r) => Math.round(r.width.baseVal.value)).join()`); got != "5,1000,301,500" {
		t.Errorf("bars: %s", got)
	}
	if got := cells(1); !strings.HasPrefix(got, "Today|all calls|2|14,000|1,800|$201\nToday|chat|1|7,000|900|$100.5\nToday|planner|1|7,000|900|$100.5\nToday|held by calls under way|1|6,000|0|$250\nThis month|all calls|2|") {
		t.Errorf("spent:\n%s", got)
	}
	if got := cells(2) + eval[string](tb, `document.querySelectorAll("table")[2].nextElementSibling.textContent`); !strings.HasPrefix(got, "fewer_sources|1|half as many sources, in half of context_tokensThat is of the ") {
		t.Errorf("ladder: %s", got)
	}
	if got, want := cells(3), "mode|inject|default\nknowledge|[\"handbook\",\"faq\"]|sidenote.yaml:16:5 tenant acme\ncontext_tokens|2000|sidenote.yaml:6:5 policy base env TOKENS\n"+
		"filters|[{\"type\":\"eq\"}]|sidenote.yaml:8:5 policy base, sidenote.yaml:17:5 tenant acme\nempty_answer|empty|default"; got != want {
		t.Errorf("settings:\n%s\nwant\n%s", got, want)
	}
	if got := eval[string](tb, `[...document.querySelectorAll(".facts dd")].map((e) => e.textContent.trim()).join("|")`); got != `base c3ca2702|inject|handbook, faq|{"type":"eq","key":"audience","value":"public"}|gpt-*, o3|openai|2,000` {
		t.Errorf("facts: %s", got)
	}
}

// A request shows the settings of its policy, and what was lowered for it; if its policy is no
// longer in force, no other one is shown.
func TestPolicyOfARequest(t *testing.T) {
	data := tenants()
	reloaded, gone, overridden := whole(), whole(), whole()
	reloaded.ID, reloaded.PolicyHash = "reloaded", "00000000"
	gone.ID, gone.Tenant = "gone", "fired"
	overridden.ID, overridden.PolicyHash = "overridden", "11111111"
	acme := data.Policies.(policies)["acme"]
	other := *acme
	other.Hash, other.Rewrite.ContextTokens = "11111111", 3000
	acme.Overrides = []tenant.Override{{Policy: &other}}
	for _, of := range []*report.Report{reloaded, gone, overridden} {
		data.Requests.Record(of)
	}
	tb := openTab(t, serve(t, data, nil))
	for id, want := range map[string]string{
		"whole":      "The policy applied unchanged.",
		"lowered":    "mode|inject|shadow\nknowledge|handbook, faq|handbook\ncontext_tokens|2000|1000",
		"overridden": "context_tokens|3000|2000",
		"reloaded":   "The configuration was read again since, and the policy that this request had is not in force any more. At present its tenant has the policy base c3ca2702.",
		"gone":       "There is no tenant of its name any more: the configuration was read again since.",
	} {
		tb.open("/requests/" + id)
		after := `[...document.querySelectorAll("h2")].find((h) => h.textContent === "Policy").nextElementSibling`
		got := eval[string](tb, `((e) => (e.tBodies ? [...e.tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent).join("|")).join("\n") : e.textContent.replace(/\s+/g, " ")))(`+after+`)`)
		if got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
		rows := eval[int](tb, `document.querySelectorAll(".settings tbody tr").length`)
		if known := id == "whole" || id == "lowered" || id == "overridden"; known && rows != 3 || !known && rows != 0 {
			t.Errorf("%s: %d settings", id, rows)
		}
	}
	tb.open("/requests/lowered")
	if eval[bool](tb, `document.querySelector(".settings").checkVisibility()`) {
		t.Error("the settings are not folded")
	}
	tb.do(chromedp.Click("details:has(.settings) summary"))
	if got := eval[string](tb, `document.querySelector(".settings").innerText.includes("sidenote.yaml:6:5 policy base env TOKENS") + document.querySelector("main").textContent`); !strings.HasPrefix(got, "true") ||
		!strings.Contains(got, "made cheaper, by the rung fewer_sources of the ladder: half as many sources, in half of context_tokens.") {
		t.Error(got)
	}
}

// The pages say what is unknown, and what does not exist.
func TestTenantsUntold(t *testing.T) {
	data := tenants()
	data.Usage = broken{}
	address := serve(t, data, nil)
	for path, want := range map[string]string{
		"/tenants/acme": "The ledger of budgets cannot be read at present", "/tenants/open": "The ledger of budgets cannot be read at present", "/tenants/tenant000": `None of the last 0 <a href="/requests?tenant=tenant000">requests</a>`,
		"/policies/careful": "none has it", "/tenants?text=nobody": "No tenant is called so.", "/tenants/acme/json": `"sidenote.yaml:6:5 policy base env TOKENS"`,
		"/policies/base/json": `"key": "context_tokens"`,
	} {
		if a := ask(t, "GET", address+path, ""); a.code != 200 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
	for _, path := range []string{"/tenants/nobody", "/policies/nobody", "/tenants/nobody/json", "/policies/nobody/json"} {
		if a := ask(t, "GET", address+path, ""); a.code != 404 || !strings.Contains(a.body, "There is no ") {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
	data.Usage = nil
	if a := ask(t, "GET", serve(t, data, nil)+"/tenants/open", ""); a.code != 200 || !strings.Contains(a.body, "Nothing is counted.") {
		t.Errorf("without a ledger: %v", a)
	}
	if a := ask(t, "GET", serve(t, inspector.Data{}, nil)+"/tenants", ""); a.code != 200 || !strings.Contains(a.body, "Nothing is known of the configuration.") {
		t.Errorf("without a configuration: %v", a)
	}
}
