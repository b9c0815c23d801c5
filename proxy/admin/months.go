package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cache/usage"
)

// A MonthUsage is what a tenant used in a month of UTC. A call counts in the month in which it
// ended.
type MonthUsage struct {
	Object string     `json:"object"` // "tenant.usage.month"
	ID     string     `json:"id"`     // the tenant
	Month  string     `json:"month"`  // as 2026-10
	Rows   []UsageRow `json:"rows"`   // by kind, model and key
}

// A UsageRow is what a tenant used in a month with a key for a kind of call and a model.
type UsageRow struct {
	Kind  string `json:"kind"`
	Model string `json:"model"` // row of the model table; "" if the request was not read
	Key   string `json:"key"`   // name of the API key; "" if it has none
	UsageAmount
}

// MonthQuery returns the query of UsagePath and TenantUsagePath for a month.
func MonthQuery(m usage.Month) string { return "?month=" + string(m) }

// either answers by month if the query names one, else by now.
func (u usageEndpoints) either(now func(*fasthttp.RequestCtx) error, month func(*fasthttp.RequestCtx, usage.Month) error) func(*fasthttp.RequestCtx) error {
	return func(ctx *fasthttp.RequestCtx) error {
		if !ctx.QueryArgs().Has("month") {
			return now(ctx)
		}
		m, err := usage.ParseMonth(string(ctx.QueryArgs().Peek("month")), time.Now())
		if err != nil {
			return optionError("month", "month: %v.", err)
		}
		if u.months == nil {
			fail(ctx, fasthttp.StatusNotFound, "not_found", "Usage is not counted here.")
			return nil
		}
		return month(ctx, m)
	}
}

// listMonth answers with a page of the tenants that used something in a month.
func (u usageEndpoints) listMonth(ctx *fasthttp.RequestCtx, m usage.Month) error {
	tenants, err := u.tenantsOf(m)
	if err != nil {
		return err
	}
	var failed error
	err = answerList(ctx, len(tenants), func(i int) string { return tenants[i] }, func(i int) MonthUsage {
		out, err := u.monthOf(m, tenants[i])
		if err != nil {
			failed = err
		}
		return out
	})
	return cmp.Or(failed, err)
}

// oneMonth answers with what one tenant used, which may be configured no more.
func (u usageEndpoints) oneMonth(ctx *fasthttp.RequestCtx, m usage.Month, tenant string) error {
	tenants, err := u.tenantsOf(m)
	if err != nil {
		return err
	}
	if u.tenants.ByName(tenant) == nil && !slices.Contains(tenants, tenant) {
		fail(ctx, fasthttp.StatusNotFound, "not_found", fmt.Sprintf("There is no tenant %q.", tenant))
		return nil
	}
	out, err := u.monthOf(m, tenant)
	if err != nil {
		return err
	}
	return writeJSON(ctx, fasthttp.StatusOK, out)
}

func (u usageEndpoints) tenantsOf(m usage.Month) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), ledgerWait)
	defer cancel()
	tenants, err := u.months.Tenants(ctx, m)
	if err != nil {
		return nil, usageUnread(err)
	}
	return tenants, nil
}

func (u usageEndpoints) monthOf(m usage.Month, tenant string) (MonthUsage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), ledgerWait)
	defer cancel()
	items, err := u.months.Items(ctx, m, tenant)
	if err != nil {
		return MonthUsage{}, usageUnread(err)
	}
	out := MonthUsage{Object: "tenant.usage.month", ID: tenant, Month: string(m), Rows: []UsageRow{}}
	for _, i := range items {
		out.Rows = append(out.Rows, UsageRow{string(i.Kind), i.Model, i.Key, amountOf(i.Amount)})
	}
	return out, nil
}
