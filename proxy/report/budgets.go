package report

import (
	"math"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sidenote/cache/budget"
)

// BudgetMetrics are the metrics of tenants' limits and charges. It implements
// budget.MeterObserver.
type BudgetMetrics struct {
	tenants          *names
	refused          *prometheus.CounterVec
	ladder           *prometheus.CounterVec
	expired, failed  prometheus.Counter
	lost, rolledBack prometheus.Counter
	cost             *prometheus.CounterVec
	ratio            *prometheus.Desc

	mu     sync.Mutex
	levels map[string]*budget.Levels // by tenant, as last seen by this process
}

// NewBudgets registers the budget metrics. Call it once, at the start of the process.
func (m *Metrics) NewBudgets() *BudgetMetrics {
	f := factory{promauto.With(m.registry)}
	b := &BudgetMetrics{
		tenants:    m.tenants,
		levels:     map[string]*budget.Levels{},
		refused:    f.counters("budget_refused_total", "Requests refused because a limit of their tenant was reached.", "tenant", "window"),
		ladder:     f.counters("budget_ladder_total", "Requests made cheaper to fit limits, by step.", "rung"),
		expired:    f.counters("budget_leases_expired_total", "Reservations not settled in time, charged as estimated.").WithLabelValues(),
		failed:     f.counters("budget_ledger_errors_total", "Failed calls of the ledger of budgets.").WithLabelValues(),
		lost:       f.counters("budget_settle_lost_total", "Settlements given up; what was reserved is charged in their place.").WithLabelValues(),
		rolledBack: f.counters("budget_rollbacks_total", "Corrections of counts that the ledger had lost.").WithLabelValues(),
		cost:       f.counters("cost_usd_total", "US dollars charged.", "tenant"),
		ratio:      prometheus.NewDesc("sidenote_budget_used_ratio", "Share of a limit that is spent or reserved, as last seen by this process.", []string{"tenant", "window"}, nil),
	}
	for _, rung := range budget.Rungs() {
		b.ladder.WithLabelValues(string(rung))
	}
	m.registry.MustRegister(b)
	return b
}

// Describe implements prometheus.Collector.
func (b *BudgetMetrics) Describe(out chan<- *prometheus.Desc) { out <- b.ratio }

// Collect implements prometheus.Collector.
func (b *BudgetMetrics) Collect(out chan<- prometheus.Metric) {
	var all []prometheus.Metric // sent after unlocking, so that a slow reader of out blocks nobody
	b.mu.Lock()
	for tenant, levels := range b.levels {
		for w, l := range levels {
			if l.Limit > 0 {
				ratio := 1 - float64(l.Left)/float64(l.Limit)
				all = append(all, prometheus.MustNewConstMetric(b.ratio, prometheus.GaugeValue, math.Max(ratio, 0), tenant, budget.Window(w).String()))
			}
		}
	}
	b.mu.Unlock()
	for _, m := range all {
		out <- m
	}
}

// Seen records how full a tenant's windows are.
func (b *BudgetMetrics) Seen(tenant string, levels budget.Levels) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.levels[tenant]
	if last == nil {
		tenant = b.tenants.label(tenant)
		if last = b.levels[tenant]; last == nil {
			last = new(budget.Levels)
			b.levels[tenant] = last
		}
	}
	*last = levels
}

// Refused counts a refused request.
func (b *BudgetMetrics) Refused(tenant string, window budget.Window) {
	b.refused.WithLabelValues(b.tenants.label(tenant), window.String()).Inc()
}

// Stepped counts a request that was reduced to fit its limits.
func (b *BudgetMetrics) Stepped(rung budget.Rung) { b.ladder.WithLabelValues(string(rung)).Inc() }

// Expired counts leases that were not settled in time.
func (b *BudgetMetrics) Expired(leases int) { b.expired.Add(float64(leases)) }

// RolledBack counts a correction of a tenant's counts that the ledger had lost.
func (b *BudgetMetrics) RolledBack(string) { b.rolledBack.Inc() }

// LedgerFailed counts a failed call of the ledger.
func (b *BudgetMetrics) LedgerFailed() { b.failed.Inc() }

// Lost counts a settlement that was given up.
func (b *BudgetMetrics) Lost(budget.Settlement, error) { b.lost.Inc() }

// Settled counts the amount charged for a call.
func (b *BudgetMetrics) Settled(tenant string, _ budget.Kind, actual budget.Amount) {
	if actual.Money > 0 {
		b.cost.WithLabelValues(b.tenants.label(tenant)).Add(float64(actual.Money) / budget.USD)
	}
}
