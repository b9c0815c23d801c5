package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"sidenote/cache/budget"
	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/engine/background"
	"sidenote/cmd/sidenote/internal/engine/caching"
	"sidenote/proxy/meter"
)

// budgets count what tenants use: in Redis where there is one, else in this process.
type budgets struct {
	meter    *meter.Meter
	reporter budget.Reporter
	queue    *budget.Queue
	file     *budget.Memory // nil unless it is kept in the state folder
	db       *redis.DB      // nil unless it is kept in a Redis
}

// budgetsFolder is where the state folder keeps what tenants used.
const budgetsFolder = "budgets"

// limitedOnRedis tells whether budgets that are counted in a Redis limit anybody.
func limitedOnRedis(cfg *config.Config) bool {
	url, _ := config.CountedOn(cfg)
	return url != "" && config.Limited(cfg)
}

// openBudgetsRedis opens the Redis that budgets are counted in; nil if they are not. It has
// connections and a time-out of its own, also where it is that of the cache: who waits for the
// cache gives up early, as a miss is cheap, and who waits for a budget is refused.
func openBudgetsRedis(cfg *config.Config, changed func(string, bool), m background.Monitor) (*redis.DB, error) {
	url, key := config.CountedOn(cfg)
	if url == "" {
		return nil, nil
	}
	o := redis.Options{
		URL: url, URLKey: key, Prefix: string(cfg.Redis.Prefix), Timeout: cfg.Budgets.Redis.Timeout, CA: cfg.Redis.CAPEM,
		Observe: func(e redis.Event) { m.Metrics.RedisCall(e.Use, e.Took, string(e.Kind)) },
		Changed: changed,
	}
	if !redis.UsesTLS(url) && redis.UsesTLS(cfg.Redis.URL.Value.Reveal()) {
		o.CA = nil // it is for the other
	}
	return redis.Open(o)
}

// meanwhile says what happens to tenants while the Redis that counts budgets fails.
func meanwhile(cfg *config.Config) string {
	switch {
	case !config.Limited(cfg):
		return "going on without it"
	case cfg.Budgets.OnFailure == "allowance":
		return "tenants with limits get their allowance"
	}
	return "tenants with limits are refused"
}

// openBudgets opens what counts them; keep says that the count outlives this process. changed
// hears of what is wrong with Redis.
func openBudgets(running func() *config.Config, changed func(string, bool), keep bool, m background.Monitor, tasks *background.Tasks) (*budgets, error) {
	cfg := running()
	b, watch := new(budgets), m.Metrics.NewBudgets()
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
		m.WatchBreaker(background.TierRedis+"/budgets", shared.Open)
		m.Metrics.Watch("budget_store_safe", "1 while the Redis that counts budgets keeps what is written, or nothing is limited.", nil, false, func() float64 {
			if shared.Safety().Safe() || !limited() {
				return 1
			}
			return 0
		})
		fallback := budget.NewFallback(shared, budget.NewMemory(nil), func(s budget.Settlement) { b.queue.Settle(s) })
		b.queue = budget.NewQueue(fallback, options)
		b.meter, b.reporter = meter.New(fallback, shared, b.queue, watch), shared
	} else {
		memory, err := openLocal(cfg, keep, m)
		if err != nil {
			return nil, err
		}
		b.file, b.reporter = memory, memory
		b.queue = budget.NewQueue(memory, options)
		b.meter = meter.New(memory, memory, atOnce{memory, b.queue}, watch)
	}
	m.Metrics.Watch("budget_leases_open", "Reservations of this process that are not settled.", nil, false, func() float64 { return float64(b.meter.Open()) })
	tasks.Start(b.meter.Run)
	return b, nil
}

// An atOnce settles in a ledger of this process before the client's next request on the same
// connection is served, so that what it gave back is there for it. What fails is left to later.
type atOnce struct {
	ledger *budget.Memory
	later  *budget.Queue
}

// Settle implements meter.Settler.
func (a atOnce) Settle(s budget.Settlement) {
	if _, err := a.ledger.SettleNow(s); err != nil {
		a.later.Settle(s)
	}
}

// openLocal opens the ledger of this process. Where another process keeps the state folder's,
// or nothing is kept there, it ends with this process.
func openLocal(cfg *config.Config, keep bool, m background.Monitor) (*budget.Memory, error) {
	if !keep || cfg.State.Path == config.StateMemory || cfg.State.Follow {
		return budget.NewMemory(nil), nil
	}
	ledger, err := budget.OpenFile(filepath.Join(cfg.State.Path, budgetsFolder), nil)
	switch {
	case err == nil:
		return ledger, nil
	case errors.Is(err, budget.ErrInUse):
		if config.Limited(cfg) {
			m.Tell(slog.LevelWarn, "budgets: another process keeps those of the state folder, so limits are counted by each of them alone")
		}
	case config.Limited(cfg):
		return nil, fmt.Errorf("open budgets of the state folder: %w", err)
	default:
		m.Tell(slog.LevelWarn, fmt.Sprintf("budgets: what tenants use is not kept over a restart: %v", err))
	}
	return budget.NewMemory(nil), nil
}

// close settles what waits.
func (b *budgets) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), caching.DrainWait)
	defer cancel()
	b.queue.Close(ctx)
	switch {
	case b.db != nil:
		return b.db.Close()
	case b.file != nil:
		return b.file.Close()
	}
	return nil
}
