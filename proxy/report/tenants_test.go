package report_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"sidenote/cache/budget"
	"sidenote/proxy/report"
)

func manyTenants(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	return names
}

func metricsWith(series report.TenantSeries, tenants ...string) *report.Metrics {
	return report.NewMetrics(report.MetricNames{Tenants: tenants, Upstreams: []string{"openai"}, Policies: []string{"base"}, TenantSeries: series})
}

// byTenant returns the value of a family by tenant.
func byTenant(t *testing.T, m *report.Metrics, name string) map[string]float64 {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, one := range f.GetMetric() {
			values[tenantOf(one)] += one.GetCounter().GetValue() + one.GetGauge().GetValue()
		}
	}
	return values
}

func tenantOf(m *dto.Metric) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == "tenant" {
			return l.GetValue()
		}
	}
	return ""
}

func request(m *report.Metrics, tenant string, times int) {
	r := relayed(200)
	r.Tenant, r.Policy, r.Usage.Input, r.Usage.Known, r.UsageFound = tenant, "base", 10, true, "found"
	for range times {
		m.Record(r)
	}
}

// With off, configured tenants are counted together, and are no overflow.
func TestTenantsOff(t *testing.T) {
	m := metricsWith(report.TenantSeries{Off: true}, "acme", "beta")
	request(m, "acme", 2)
	request(m, "beta", 1)
	request(m, "strange", 1)
	for _, name := range []string{"sidenote_requests_total", "sidenote_responses_total"} {
		if got := byTenant(t, m, name); len(got) != 1 || got["other"] != 4 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := byTenant(t, m, "sidenote_metrics_overflow_total")[""]; got != 2 { // its requests, and its prompts
		t.Errorf("overflow %v", got)
	}
}

// The busiest tenants have series of their own. Places are taken at once while some are free, and
// then by tenants that are busier.
func TestTenantsTop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metricsWith(report.TenantSeries{Top: 2}, "a", "b", "c", "d")
		want := func(want map[string]float64) {
			t.Helper()
			if got := byTenant(t, m, "sidenote_requests_total"); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		request(m, "a", 10)
		request(m, "b", 5)
		request(m, "c", 6)
		want(map[string]float64{"a": 10, "b": 5, "other": 6}) // c is not yet busier by more than a fifth
		request(m, "c", 3)
		want(map[string]float64{"a": 10, "b": 5, "other": 9}) // ranked within the last minute
		time.Sleep(time.Minute)
		want(map[string]float64{"a": 10, "other": 9}) // c has the place of b
		request(m, "c", 2)
		request(m, "b", 100)
		time.Sleep(time.Minute)
		want(map[string]float64{"b": 5, "c": 2, "other": 109}) // b has that of a
		request(m, "b", 1)
		request(m, "c", 1)
		want(map[string]float64{"b": 6, "c": 3, "other": 109})
		time.Sleep(24 * time.Hour)
		request(m, "a", 3)
		request(m, "d", 2)
		want(map[string]float64{"a": 10, "other": 114}) // a hundred requests of yesterday are less than two
		request(m, "d", 1)
		want(map[string]float64{"a": 10, "d": 1, "other": 114})
	})
}

// However tenants come and go, no exposed counter goes backwards, each request is counted once, and
// at most so many tenants are exposed.
func TestTenantsTopOnlyGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, tenants = 5, 40
		m := metricsWith(report.TenantSeries{Top: places}, manyTenants(tenants)...)
		random := rand.New(rand.NewPCG(1, 2))
		last, total, entered := map[string]float64{}, 0, map[string]bool{}
		for range 100 {
			busy := random.IntN(tenants)
			for range 30 {
				n := random.IntN(tenants)
				if random.IntN(2) == 0 {
					n = (busy + random.IntN(3)) % tenants
				}
				request(m, fmt.Sprintf("t%d", n), 1)
				total++
			}
			time.Sleep(20 * time.Minute)
			now := byTenant(t, m, "sidenote_requests_total")
			if len(now) > places+1 {
				t.Fatalf("%d tenants: %v", len(now), now)
			}
			for tenant, v := range now {
				if v < last[tenant] {
					t.Fatalf("%s went from %v to %v", tenant, last[tenant], v)
				}
				last[tenant], entered[tenant] = v, true
			}
		}
		var sum float64
		for _, v := range last { // of tenants that left, as last seen
			sum += v
		}
		if len(entered) < 2*places || int(sum) > total {
			t.Errorf("%d tenants had places; %v of %d counted", len(entered), sum, total)
		}
	})
}

// The number of lines does not depend on the number of tenants.
func TestTenantsTopBoundsLines(t *testing.T) {
	lines := func(tenants int, series report.TenantSeries) int {
		m := metricsWith(series, manyTenants(tenants)...)
		for _, name := range manyTenants(tenants) {
			request(m, name, 1)
		}
		return strings.Count(exposition(t, m, ""), "\n")
	}
	few, many, off := lines(1000, report.TenantSeries{Top: 20}), lines(10_000, report.TenantSeries{Top: 20}), lines(10_000, report.TenantSeries{Off: true})
	if many != few || off >= many || many > 1000 {
		t.Errorf("%d lines for 1,000 tenants, %d for 10,000, %d with off", few, many, off)
	}
}

// Of the tenants without series of their own, gauges show the highest value.
func TestTenantsGaugesFold(t *testing.T) {
	m := metricsWith(report.TenantSeries{Top: 1}, "a", "b", "c")
	b := m.NewBudgets()
	m.WatchTenants("mode_switched", "Whether.", func(tenant string) float64 {
		if tenant == "c" {
			return 1
		}
		return 0
	})
	request(m, "a", 1)
	for tenant, left := range map[string]int64{"a": 90, "b": 80, "c": 10, "unknown": 50} {
		var levels budget.Levels
		levels[0].Limit, levels[0].Left = 100, left
		b.Seen(tenant, levels)
	}
	if got := byTenant(t, m, "sidenote_budget_used_ratio"); len(got) != 2 || got["a"] > .11 || got["other"] != .9 {
		t.Errorf("%v", got)
	}
	if got := byTenant(t, m, "sidenote_mode_switched"); len(got) != 2 || got["a"] != 0 || got["other"] != 1 {
		t.Errorf("%v", got)
	}
}

// A gauge of a budget does not outlive its day or month.
func TestBudgetGaugesEndWithTheirWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metricsWith(report.TenantSeries{}, "a")
		var levels budget.Levels
		levels[budget.MoneyPerMonth] = budget.Level{Limit: 100, Left: 5, Reset: time.Hour}
		levels[budget.ParallelRequests] = budget.Level{Limit: 4, Left: 3}
		m.NewBudgets().Seen("a", levels)
		for _, c := range []struct {
			after time.Duration
			lines int
		}{{0, 2}, {59 * time.Minute, 2}, {time.Minute, 1}} {
			time.Sleep(c.after)
			if text := exposition(t, m, ""); strings.Count(text, "\nsidenote_budget_used_ratio{") != c.lines {
				t.Errorf("after %v: not %d lines\n%s", c.after, c.lines, text)
			}
		}
	})
}
