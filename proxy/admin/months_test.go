package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/cache/usage"
	"sidenote/cache/usage/usagetest"
	"sidenote/proxy/admin"
	"sidenote/proxy/tenant"
)

func monthsServer(t *testing.T, months usage.Reader) string {
	acme := tenant.Key{SHA256: [32]byte{1}, Policy: &tenant.Policy{Tenant: "acme"}}
	return listen(t, admin.NewServer(handler(func(h *admin.Handler) {
		h.Tenants, h.Usage, h.Months = tenant.NewDirectory(tenant.Tenants{Keys: []tenant.Key{acme}}), budget.NewMemory(time.Now), months
	}).Handle, slog.New(slog.DiscardHandler)))
}

// A month lists the tenants that used something, page by page, also those that are not configured
// any more.
func TestUsageOfMonth(t *testing.T) {
	month := usage.MonthOf(time.Now())
	store := usage.NewMemory()
	for n := range 150 {
		b := usagetest.Batch(fmt.Sprintf("old-%03d", n), "w", int64(n+1), usagetest.Item("gpt*", "ci", 3))
		b.Month = month
		usagetest.Add(t, store, b)
	}
	url := monthsServer(t, store)
	seen := map[string]bool{}
	for query := "&order=asc&limit=100"; query != ""; {
		_, body := call(t, "GET", url+admin.UsagePath+admin.MonthQuery(month)+query, "")
		var page admin.List[admin.MonthUsage]
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		for _, one := range page.Data {
			seen[one.ID] = len(one.Rows) == 1
		}
		if query = ""; page.HasMore {
			query = "&order=asc&limit=100&after=" + *page.LastID
		}
	}
	if len(seen) != 150 || !seen["old-149"] {
		t.Errorf("%d tenants", len(seen))
	}
	want := `{"object":"tenant.usage.month","id":"old-007","month":"` + string(month) + `","rows":[{"kind":"chat","model":"gpt*","key":"ci","requests":1,"tokens":3,"injected_tokens":1,"usd":3}]}`
	if code, body := call(t, "GET", url+admin.TenantUsagePath("old-007")+admin.MonthQuery(month), ""); code != 200 || strings.TrimSpace(body) != want {
		t.Errorf("%d %s", code, body)
	}
	if code, body := call(t, "GET", url+admin.TenantUsagePath("acme")+admin.MonthQuery(month), ""); code != 200 || !strings.Contains(body, `"rows":[]`) {
		t.Errorf("a tenant that used nothing: %d %s", code, body)
	}
	if code, body := call(t, "GET", url+admin.TenantUsagePath("nobody")+admin.MonthQuery(month), ""); code != 404 || !strings.Contains(body, `There is no tenant \"nobody\".`) {
		t.Errorf("%d %s", code, body)
	}
}

// What is no month is refused by name, and a store that fails is no empty bill.
func TestUsageOfMonthErrors(t *testing.T) {
	url := monthsServer(t, downMonths{})
	for _, path := range []string{admin.UsagePath, admin.TenantUsagePath("acme")} {
		for query, want := range map[string]string{"last": `\"last\" is no month`, "2026-13": `\"2026-13\" is no month`, "2999-01": "2999-01 has not begun", "": `\"\" is no month`} {
			if code, body := call(t, "GET", url+path+"?month="+query, ""); code != 400 || !strings.Contains(body, want) {
				t.Errorf("%s of %q: %d %s", path, query, code, body)
			}
		}
		code, body := call(t, "GET", url+path+admin.MonthQuery(usage.MonthOf(time.Now())), "")
		if code != 503 || !strings.Contains(body, "Usage of tenants cannot be read; try again.") || strings.Contains(body, "canary") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

type downMonths struct{}

func (downMonths) Tenants(context.Context, usage.Month) ([]string, error) {
	return []string{"acme"}, nil
}

func (downMonths) Items(context.Context, usage.Month, string) ([]usage.Item, error) {
	return nil, errors.New("canary")
}
