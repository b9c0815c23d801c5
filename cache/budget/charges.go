package budget

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"
)

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
	c.waiting[key] = c.waiting[key].plus(a)
}

// plus adds two amounts, up to the maximum of a settlement.
func (a Amount) plus(b Amount) Amount {
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
