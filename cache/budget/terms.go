package budget

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// A Rung is a step that reduces a request before it is refused.
type Rung string

// The rungs.
const (
	NoStages       Rung = "no_stages"       // a request of mode staged is answered as in mode inject
	FewerSources   Rung = "fewer_sources"   // half as many sources, in half the context tokens
	ShorterSources Rung = "shorter_sources" // half as many sources, in a quarter of the context tokens
	NoPlanner      Rung = "no_planner"      // no planning
	NoReranker     Rung = "no_reranker"     // no reranking or grading; on no ladder, as it is always tried
	NoSources      Rung = "no_sources"      // the request without sources
	RefuseRung     Rung = "refuse"          // the end of each ladder
)

// Rungs returns the rungs that a ladder may list, in the default order.
func Rungs() []Rung { return []Rung{NoStages, FewerSources, ShorterSources, NoPlanner, NoSources} }

// Terms are the budget settings of a policy. Without Limits they only define costs.
type Terms struct {
	Limits    Limits
	Allowance Limits // what one replica may grant while the ledger cannot be asked; zero: nothing
	Ladder    []Rung // rungs in the order in which they are tried, without the refusal at the end
	Prices    PriceTable
	Unpriced  *Prices // for models not in Prices; nil: refused if money is limited
}

// Limited reports whether there is any limit.
func (t *Terms) Limited() bool { return t.Limits != Limits{} }

// Tokens reports whether tokens or money are limited, so that usage must be known.
func (t *Terms) Tokens() bool {
	of := t.Limits
	of[RequestsPerMinute], of[ParallelRequests] = 0, 0
	return of != Limits{}
}

// Priced reports whether there is any price.
func (t *Terms) Priced() bool { return len(t.Prices) > 0 || t.Unpriced != nil }

// Money reports whether money is limited, so that the model's price must be known.
func (t *Terms) Money() bool {
	return t.Limits[MoneyPerDay] > 0 || t.Limits[MoneyPerMonth] > 0
}

// DefaultOutput returns the output limit for an answer without one, 0 for none: a quarter of the
// smallest token limit, so that a limit does not refuse every request that sets no maximum.
func (t *Terms) DefaultOutput() (n int64) {
	for _, w := range [...]Window{TokensPerMinute, TokensPerDay} {
		if limit := t.Limits[w]; limit > 0 && (n == 0 || limit/4 < n) {
			n = max(limit/4, 1)
		}
	}
	return n
}

// PricesOf returns the prices of a model by its names. A model without a price is free if money is
// not limited; otherwise the error wraps ErrNoPrice.
func (t *Terms) PricesOf(names ...string) (Tariff, error) {
	switch p, ok := t.Prices.Find(names...); {
	case ok:
		return p, nil
	case t.Unpriced != nil:
		return Tariff{Prices: *t.Unpriced}, nil
	case !t.Money():
		return Tariff{}, nil
	}
	return t.Prices.Of(names...)
}

// Money converts a cost to the unit of budgets, rounded up, so that never less is charged than a
// call costs. A cost that cannot be computed becomes the largest amount that a ledger accepts.
func Money(cost PicoDollars, err error) int64 {
	const unit = PicoDollars(Dollar / USD)
	if errors.Is(err, ErrPriceOverflow) || cost > math.MaxInt64-unit {
		return MaxAmount
	}
	if err != nil {
		panic(fmt.Sprintf("BUG: a cost of checked numbers: %v", err))
	}
	return min(int64((cost+unit-1)/unit), MaxAmount)
}

// Charges add to a ledger the amounts of calls without a reservation, whose tenants have no
// limits. The amounts of a tenant are summed up and charged together, once a second in the
// background, so that no call waits for the ledger and an outage of it costs no memory. Amounts
// that are not charged when the process ends are lost.
type Charges struct {
	ledger Ledger
	stop   context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	waiting map[chargeKey]Amount

	open map[chargeKey]charge // charges whose result is unknown; used only by run
}

type chargeKey struct {
	tenant string
	kind   Kind
}

// A charge is an amount with the ID under which it is charged once.
type charge struct {
	id     string
	amount Amount
}

// chargePause is the time between two rounds of charges.
const chargePause = time.Second

// NewCharges starts charging to a ledger. Call Close when done with it.
func NewCharges(l Ledger) *Charges {
	ctx, stop := context.WithCancel(context.Background())
	c := &Charges{
		ledger: l, stop: stop, ended: make(chan struct{}),
		waiting: map[chargeKey]Amount{}, open: map[chargeKey]charge{},
	}
	go c.run(ctx)
	return c
}

// Add queues an amount to be charged. It never blocks.
func (c *Charges) Add(tenant string, kind Kind, a Amount) {
	key := chargeKey{tenant, kind}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[key] = c.waiting[key].Plus(a)
}

// Plus adds two amounts, up to the maximum of a settlement.
func (a Amount) Plus(b Amount) Amount {
	x, y := a.units(), b.units()
	for u := range x {
		x[u] = min(x[u]+y[u], MaxAmount)
	}
	return x.amount()
}

// Close charges what is queued, as far as possible until ctx ends.
func (c *Charges) Close(ctx context.Context) {
	c.stop()
	<-c.ended
	c.round(ctx)
	c.round(ctx) // for tenants that had an open charge
}

func (c *Charges) run(ctx context.Context) {
	defer close(c.ended)
	tick := time.NewTicker(chargePause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.round(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// round retries the open charges, and makes those of all other tenants and kinds.
func (c *Charges) round(ctx context.Context) {
	c.mu.Lock()
	for key, amount := range c.waiting {
		if _, known := c.open[key]; !known {
			c.open[key] = charge{rand.Text(), amount}
			delete(c.waiting, key)
		}
	}
	c.mu.Unlock()
	for key, charge := range c.open {
		if ctx.Err() != nil {
			return
		}
		if err := c.make(ctx, key, charge); err == nil || errors.Is(err, ErrInvalid) {
			delete(c.open, key)
		} else if errors.Is(err, ErrSkipped) {
			return // the others would be skipped, too
		}
	}
}

// make charges an amount; repeating it does not charge twice.
func (c *Charges) make(ctx context.Context, key chargeKey, of charge) error {
	d, err := c.ledger.Reserve(ctx, Reservation{Tenant: key.tenant, ID: "sum:" + of.id, Kind: key.kind, Estimate: of.amount, Lease: MaxLease})
	if errors.Is(err, ErrClosed) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = c.ledger.Settle(ctx, Settlement{Ticket: d.Ticket, Actual: of.amount})
	return err
}
