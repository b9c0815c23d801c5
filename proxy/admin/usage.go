package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/cache/usage"
	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
)

// UsagePath is the path of the usage of all tenants; for one tenant, see TenantUsagePath.
const UsagePath = "/v1/usage"

// TenantUsagePath returns the path of a tenant's usage.
func TenantUsagePath(tenant string) string { return tenantsPath + tenant + usageSuffix }

const tenantsPath, usageSuffix = "/v1/tenants/", "/usage"

// A Usage is what a tenant has used, and what is left of its limits.
type Usage struct {
	Object   string        `json:"object"` // "tenant.usage"
	ID       string        `json:"id"`     // the tenant
	Windows  []UsageWindow `json:"windows"`
	Day      UsagePeriod   `json:"day"`
	Month    UsagePeriod   `json:"month"`
	Parallel int64         `json:"parallel_requests"`
	// Prompts say how upstreams' caches treated the prompts of the last 50 to 60 minutes, by policy
	// and model, as counted by this process.
	Prompts []explain.PromptUse `json:"prompt_cache,omitempty"`
}

// A UsageWindow is the state of one limit. The numbers are requests, tokens or, in windows of usd,
// US dollars.
type UsageWindow struct {
	Window string      `json:"window"`
	Limit  json.Number `json:"limit"`
	Used   json.Number `json:"used"` // spent and held
	Left   json.Number `json:"left"`
	// ResetMS is the time in milliseconds until Left equals Limit again.
	ResetMS int64 `json:"reset_ms,omitempty"`
}

// A UsagePeriod is the usage on a day or in a month of UTC.
type UsagePeriod struct {
	Start time.Time              `json:"start"`
	End   time.Time              `json:"end"`
	Spent UsageAmount            `json:"spent"`
	Held  UsageAmount            `json:"held"` // by unfinished requests
	Kinds map[string]UsageAmount `json:"kinds,omitempty"`
}

// A UsageAmount is an amount of each unit.
type UsageAmount struct {
	Requests int64       `json:"requests"`
	Tokens   int64       `json:"tokens"`
	Injected int64       `json:"injected_tokens"`
	USD      json.Number `json:"usd"`
}

func amountOf(a budget.Amount) UsageAmount {
	return UsageAmount{Requests: a.Requests, Tokens: a.Tokens, Injected: a.Injected, USD: json.Number(budget.Dollars(a.Money))}
}

func periodOf(p budget.Period) UsagePeriod {
	out := UsagePeriod{Start: p.Start, End: p.End, Spent: amountOf(p.Spent), Held: amountOf(p.Held)}
	for kind, a := range p.Kinds {
		if out.Kinds == nil {
			out.Kinds = map[string]UsageAmount{}
		}
		out.Kinds[string(kind)] = amountOf(a)
	}
	return out
}

func usageOf(tenant string, u budget.Usage) Usage {
	out := Usage{
		Object: "tenant.usage", ID: tenant, Windows: []UsageWindow{},
		Day: periodOf(u.Day), Month: periodOf(u.Month), Parallel: u.Parallel,
	}
	for w, l := range u.Levels {
		if l.Limit == 0 {
			continue
		}
		number := func(n int64) json.Number { return json.Number(budget.Window(w).Number(n)) }
		out.Windows = append(out.Windows, UsageWindow{
			Window: budget.Window(w).String(), Limit: number(l.Limit), Used: number(l.Limit - l.Left), Left: number(l.Left),
			ResetMS: l.Reset.Milliseconds(),
		})
	}
	return out
}

// ledgerWait is the timeout for a ledger; one in Redis has a shorter timeout of its own.
const ledgerWait = 10 * time.Second

// usageEndpoints serve the usage endpoints.
type usageEndpoints struct {
	ledger   budget.Reporter
	months   usage.Reader // may be nil
	tenants  *tenant.Directory
	overview *explain.Recorder // may be nil
}

// endpoint returns the endpoint at a path.
func (u usageEndpoints) endpoint(path string) (endpoint, bool) {
	if path == UsagePath {
		return endpoint{method: "GET", path: UsagePath, handle: u.either(u.list, u.listMonth)}, true
	}
	rest, ok := strings.CutPrefix(path, tenantsPath)
	tenant, ok2 := strings.CutSuffix(rest, usageSuffix)
	return endpoint{method: "GET", path: tenantsPath + "{tenant}" + usageSuffix, handle: u.either(
		func(ctx *fasthttp.RequestCtx) error { return u.one(ctx, tenant) },
		func(ctx *fasthttp.RequestCtx, m usage.Month) error { return u.oneMonth(ctx, m, tenant) },
	)}, ok && ok2 && tenant != ""
}

func (u usageEndpoints) one(ctx *fasthttp.RequestCtx, tenant string) error {
	p := u.tenants.ByName(tenant)
	if p == nil {
		fail(ctx, fasthttp.StatusNotFound, "not_found", fmt.Sprintf("There is no tenant %q.", tenant))
		return nil
	}
	out, err := u.of(p, u.prompts())
	if err != nil {
		return err
	}
	return writeJSON(ctx, fasthttp.StatusOK, out)
}

// of asks the ledger. It does not pass on the request's context, which is reused, because the
// ledger's client may read the context after it has answered.
func (u usageEndpoints) of(p *tenant.Policy, prompts []explain.PromptUse) (Usage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), ledgerWait)
	defer cancel()
	used, err := u.ledger.Usage(ctx, p.Tenant, p.Budget.Limits)
	if err != nil {
		return Usage{}, usageUnread(err)
	}
	out := usageOf(p.Tenant, used)
	for i := range prompts {
		if prompts[i].Tenant == p.Tenant {
			out.Prompts = append(out.Prompts, prompts[i])
		}
	}
	return out, nil
}

func usageUnread(err error) error {
	return &Refusal{Status: fasthttp.StatusServiceUnavailable, Code: "ledger_unavailable", Message: "Usage of tenants cannot be read; try again.", Err: err}
}

func (u usageEndpoints) prompts() []explain.PromptUse {
	if u.overview == nil {
		return nil
	}
	return u.overview.PromptUses(time.Now())
}

// list answers with a page of all tenants by name.
func (u usageEndpoints) list(ctx *fasthttp.RequestCtx) error {
	var all []*tenant.Policy
	for _, p := range u.tenants.Policies() {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *tenant.Policy) int { return cmp.Compare(a.Tenant, b.Tenant) })
	var failed error
	prompts := u.prompts()
	err := answerList(ctx, len(all), func(i int) string { return all[i].Tenant }, func(i int) Usage {
		out, err := u.of(all[i], prompts)
		if err != nil {
			failed = err
		}
		return out
	})
	return cmp.Or(failed, err)
}
