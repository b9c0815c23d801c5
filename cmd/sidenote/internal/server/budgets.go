package server

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"sidenote/cache/budget"
	"sidenote/cache/redis"
	"sidenote/cache/usage"
	"sidenote/cmd/sidenote/internal/config"
)

// budgets count the usage of tenants, in Redis if configured, else in this process.
type budgets struct {
	meter    *budget.Meter
	reporter budget.Reporter
	queue    *budget.Queue
	charges  *budget.Charges // of tenants without limits
	bills    *usage.Counter
	months   *usage.File // nil unless kept in the state folder
	log      func(slog.Level, string)
	file     *budget.File // nil unless kept in the state folder
	running  func() *config.Config
	db       *redis.DB // nil unless kept in Redis
}

// budgetsFolder is the subfolder of the state folder that holds the usage of tenants.
const budgetsFolder = "budgets"

// usageFolder is the subfolder of the state folder that holds what was used in each month.
const usageFolder = "usage"

// limitedOnRedis reports whether budgets are counted in Redis and some tenant has limits.
func limitedOnRedis(cfg *config.Config) bool {
	url, _ := config.BudgetsRedisURL(cfg)
	return url != "" && config.Limited(cfg)
}

// openBudgetsRedis opens the Redis for budgets, or returns nil if none is configured. It has its
// own connections and timeout even if it is the cache's Redis: a cache lookup gives up early
// because a miss is cheap, but a request whose budget cannot be checked may be refused.
func openBudgetsRedis(cfg *config.Config, changed func(string, bool), m Monitor) (*redis.DB, error) {
	url, key := config.BudgetsRedisURL(cfg)
	if url == "" {
		return nil, nil
	}
	o := redis.Options{
		URL: url, URLKey: key, Prefix: string(cfg.Redis.Prefix), Timeout: cfg.Budgets.Redis.Timeout, CA: cfg.Redis.CAPEM,
		Observe: func(e redis.Event) { m.Metrics.RedisCall(e.Use, e.Took, string(e.Kind)) },
		Changed: changed,
	}
	if !redis.UsesTLS(url) && redis.UsesTLS(cfg.Redis.URL.Value.Reveal()) {
		o.CA = nil // the CA is for the cache's Redis
	}
	return redis.Open(o)
}

// meanwhile describes what happens to tenants with limits while the budget store fails.
func meanwhile(cfg *config.Config) string {
	if cfg.Budgets.OnFailure == "allowance" {
		return "tenants with limits get their allowance"
	}
	return "tenants with limits are refused"
}

// openBudgets opens the ledger; keep means that counts outlive this process. changed is called when
// Redis fails and recovers.
func openBudgets(running func() *config.Config, changed func(string, bool), keep bool, m Monitor, tasks *Tasks) (*budgets, error) {
	cfg := running()
	b, watch := &budgets{running: running, log: m.Log}, m.Metrics.NewBudgets()
	options := budget.QueueOptions{Lost: watch.Lost}
	db, err := openBudgetsRedis(cfg, changed, m)
	if err != nil {
		return nil, err
	}
	if b.db = db; db != nil {
		limited := func() bool { return config.Limited(running()) }
		shared := db.Ledger("budgets", redis.LedgerOptions{
			Limited: limited, RefuseLost: cfg.Budgets.OnRollback == "refuse",
			Meanwhile: func() string { return meanwhile(running()) },
		})
		m.WatchBreaker(TierRedis+"/budgets", shared.Open)
		watchSafe(m, func() bool { return shared.Safety().Safe() || !limited() })
		fallback := budget.NewFallback(shared, budget.NewMemory(nil), func(s budget.Settlement) { b.queue.Settle(s) })
		b.queue = budget.NewQueue(fallback, options)
		b.meter, b.reporter = budget.NewMeter(fallback, shared, b.queue, watch), shared
		b.charges = budget.NewCharges(shared)
	} else if err := b.openLocal(keep, m, options, watch); err != nil {
		return nil, err
	}
	b.meter.Charges = b.charges
	if err := b.openBills(keep, m); err != nil {
		return nil, err
	}
	m.Metrics.Watch("budget_leases_open", "Unsettled reservations of this process.", nil, false, func() float64 { return float64(b.meter.Open()) })
	tasks.Start(b.meter.Run)
	return b, nil
}

// watchSafe exports whether the store keeps what is counted.
func watchSafe(m Monitor, safe func() bool) {
	m.Metrics.Watch("budget_store_safe", "1 while the store that counts budgets keeps what is written, or nothing is limited.", nil, false, func() float64 {
		if safe() {
			return 1
		}
		return 0
	})
}

// A localLedger is a ledger in this process.
type localLedger interface {
	budget.Ledger
	budget.Renewer
	budget.Reporter
	SettleNow(s budget.Settlement) (budget.Outcome, error)
}

// An atOnce settles in a local ledger before the client's next request on the same connection is
// served, so that returned budget is available to it. Settlements that fail are queued.
type atOnce struct {
	ledger   localLedger
	fallback *budget.Fallback
	later    *budget.Queue
}

// Settle implements budget.Settler.
func (a atOnce) Settle(s budget.Settlement) {
	var err error
	if s.Local {
		_, err = a.fallback.Settle(context.Background(), s)
	} else {
		_, err = a.ledger.SettleNow(s)
	}
	if err != nil {
		a.later.Settle(s)
	}
}

// openLocal opens the ledger of this process. It is kept in the state folder, unless nothing is
// kept there or another process already does; then it ends with this process. While the folder
// cannot be used, budgets.on_failure applies to tenants with limits.
func (b *budgets) openLocal(keep bool, m Monitor, options budget.QueueOptions, watch budget.MeterObserver) error {
	cfg, ledger := b.running(), localLedger(budget.NewMemory(nil))
	if keep && cfg.State.Path != config.StateMemory && !cfg.State.Follow {
		file, err := budget.NewFile(filepath.Join(cfg.State.Path, budgetsFolder), budget.FileOptions{
			Changed: func(trouble error) { m.Changed(b.line(trouble), trouble != nil) },
			Notice:  func(line string) { m.Log(slog.LevelWarn, "budgets: "+line) },
		})
		switch {
		case err == nil:
			ledger, b.file = file, file
			watchSafe(m, func() bool { return file.Trouble() == nil || !config.Limited(b.running()) })
		case !errors.Is(err, budget.ErrInUse):
			return err
		case config.Limited(cfg):
			m.Log(slog.LevelWarn, "budgets: another process keeps the counts in the state folder, so each process enforces the limits separately")
		}
	}
	fallback := budget.NewFallback(ledger, budget.NewMemory(nil), func(s budget.Settlement) { b.queue.Settle(s) })
	b.queue = budget.NewQueue(fallback, options)
	b.reporter, b.meter = ledger, budget.NewMeter(fallback, ledger, atOnce{ledger, fallback, b.queue}, watch)
	b.charges = budget.NewCharges(ledger)
	return nil
}

// openBills opens the counts of each month, in Redis if budgets are counted there, else in the
// state folder. Without either, or if another process has opened the folder, they end with this
// process.
func (b *budgets) openBills(keep bool, m Monitor) error {
	cfg, store := b.running(), usage.Store(usage.NewMemory())
	switch {
	case b.db != nil:
		store = b.db.Usage()
	case keep && cfg.State.Path != config.StateMemory && !cfg.State.Follow:
		file, err := usage.NewFile(filepath.Join(cfg.State.Path, usageFolder), func(line string) { m.Log(slog.LevelWarn, line) })
		switch {
		case err == nil:
			store, b.months = file, file
		case !errors.Is(err, budget.ErrInUse):
			return err
		}
	}
	line := ""
	b.bills = usage.NewCounter(store, usage.CounterOptions{Changed: func(err error) {
		if err != nil {
			line = "usage: it cannot be written and waits in memory: " + err.Error()
		}
		m.Changed(line, err != nil)
	}})
	b.meter.Biller = b.bills
	return nil
}

// line describes the problem of the ledger in the state folder and what tenants with limits get.
func (b *budgets) line(trouble error) string {
	if trouble == nil {
		return "budgets: the state folder cannot be used"
	}
	line := "budgets: " + trouble.Error()
	if cfg := b.running(); config.Limited(cfg) {
		line += "; " + meanwhile(cfg)
	}
	return line
}

// problems says why limits cannot be enforced at present.
func (b *budgets) problems() []string {
	if b == nil || b.file == nil {
		return nil
	}
	if trouble := b.file.Trouble(); trouble != nil {
		return []string{b.line(trouble)}
	}
	return nil
}

// close writes pending settlements and closes the ledger.
func (b *budgets) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), DrainWait)
	defer cancel()
	b.charges.Close(ctx)
	b.queue.Close(ctx)
	if err := b.bills.Close(ctx); err != nil {
		b.log(slog.LevelWarn, "usage of the last requests is lost: "+err.Error())
	}
	var errs []error
	if b.db != nil {
		errs = append(errs, b.db.Close())
	}
	if b.file != nil {
		errs = append(errs, b.file.Close())
	}
	if b.months != nil {
		errs = append(errs, b.months.Close())
	}
	return errors.Join(errs...)
}
