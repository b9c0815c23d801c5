package usage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sidenote/cache/budget"
)

// writePause is the time between two writes, and so what a process that is killed loses.
const writePause = time.Second

// maxWaiting is how many rows wait in memory while the Store fails. Further ones are folded.
const maxWaiting = 100_000

// reportAfter is how many writes in succession fail before that is reported.
const reportAfter = 10

// CounterOptions configure a Counter.
type CounterOptions struct {
	Now func() time.Time // the clock; nil for time.Now
	// Changed is called with the error when writes keep failing, and with nil when they succeed
	// again; it may be nil.
	Changed func(err error)
}

// A Counter adds what calls used to a Store, once a second in the background. A call counts in the
// month in which it ended, by the clock of this process. While the Store fails, sums are kept in
// memory; those that are not written when the process is killed are lost, and none is counted
// twice. It is safe for concurrent use.
type Counter struct {
	store  Store
	o      CounterOptions
	writer string
	stop   context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	waiting map[account]map[Row]budget.Amount
	rows    int // in waiting

	writing sync.Mutex // guards the fields below
	number  int64
	open    map[account]Batch // batches whose result is unknown or a failure
	failed  int               // writes in succession
}

// An account is what a Batch is for.
type account struct {
	tenant string
	month  Month
}

// NewCounter starts writing to a Store. Call Close when done with it.
func NewCounter(s Store, o CounterOptions) *Counter {
	if o.Now == nil {
		o.Now = time.Now
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Counter{
		store: s, o: o, writer: rand.Text(), stop: stop, ended: make(chan struct{}),
		waiting: map[account]map[Row]budget.Amount{}, open: map[account]Batch{},
	}
	go c.run(ctx)
	return c
}

// Settled implements budget.Biller. It never blocks.
func (c *Counter) Settled(call budget.MeteredCall, actual budget.Amount) {
	if actual == (budget.Amount{}) {
		return
	}
	of := account{call.Tenant, MonthOf(c.o.Now())}
	row := Row{call.Kind, call.Model, call.Key}.clean()
	c.mu.Lock()
	defer c.mu.Unlock()
	rows := c.waiting[of]
	if rows == nil {
		rows = map[Row]budget.Amount{}
		c.waiting[of] = rows
	}
	if _, known := rows[row]; !known && c.rows >= maxWaiting {
		row = row.folded()
	}
	before := len(rows)
	rows[row] = rows[row].Plus(actual)
	c.rows += len(rows) - before
}

// Write writes what is waiting. A batch that fails is repeated by the next Write; what its tenant
// uses meanwhile waits.
func (c *Counter) Write(ctx context.Context) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.collect()
	if len(c.open) == 0 {
		return nil
	}
	var failed error // the first error
	batches := slices.Collect(maps.Values(c.open))
	for i, err := range c.store.Add(ctx, batches) {
		if err == nil || errors.Is(err, budget.ErrInvalid) {
			delete(c.open, account{batches[i].Tenant, batches[i].Month})
		} else if failed == nil {
			failed = err
		}
	}
	c.tell(failed)
	return failed
}

// collect makes batches of what is waiting, at most one for a tenant and month.
func (c *Counter) collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, rows := range c.waiting {
		if _, unfinished := c.open[of]; unfinished {
			continue
		}
		c.number++
		b := Batch{Tenant: of.tenant, Month: of.month, Writer: c.writer, Number: c.number}
		for row, amount := range rows {
			b.Items = append(b.Items, Item{row, amount})
		}
		slices.SortFunc(b.Items, func(x, y Item) int { return x.Compare(y.Row) })
		c.open[of] = b
		c.rows -= len(rows)
		delete(c.waiting, of)
	}
}

// tell reports when writes keep failing, and when they succeed again.
func (c *Counter) tell(err error) {
	told := c.failed >= reportAfter
	if c.failed++; err == nil {
		c.failed = 0
	}
	if changed := c.o.Changed; changed != nil && told != (c.failed >= reportAfter) {
		changed(err)
	}
}

func (c *Counter) run(ctx context.Context) {
	defer close(c.ended)
	tick := time.NewTicker(writePause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = c.Write(ctx) // tell reports it
		case <-ctx.Done():
			return
		}
	}
}

// Close writes what is waiting, as far as possible until ctx ends.
func (c *Counter) Close(ctx context.Context) error {
	c.stop()
	<-c.ended
	if err := errors.Join(c.Write(ctx), c.Write(ctx)); err != nil { // twice, for accounts with an open batch
		return fmt.Errorf("write usage: %w", err)
	}
	return nil
}

// Tenants implements Reader, with what this process has counted until now.
func (c *Counter) Tenants(ctx context.Context, m Month) ([]string, error) {
	_ = c.Write(ctx) // what cannot be written is not told
	return c.store.Tenants(ctx, m)
}

// Items implements Reader.
func (c *Counter) Items(ctx context.Context, m Month, tenant string) ([]Item, error) {
	return c.store.Items(ctx, m, tenant)
}
