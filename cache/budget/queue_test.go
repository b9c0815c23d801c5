package budget_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache/budget"
)

var errGone = errors.New("gone")

// A gate is a ledger in memory that fails while an error is set.
type gate struct {
	*budget.Memory

	mu    sync.Mutex
	err   error
	bad   string // ID whose settlement fails with errBad
	asked int
}

var errBad = fmt.Errorf("%w: this one", budget.ErrCorrupt)

func newGate() *gate { return &gate{Memory: budget.NewMemory(nil)} }

func (g *gate) set(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func (g *gate) fails() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	return g.err
}

func (g *gate) times() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

func (g *gate) Reserve(ctx context.Context, r budget.Reservation) (budget.Decision, error) {
	if err := g.fails(); err != nil {
		return budget.Decision{}, err
	}
	return g.Memory.Reserve(ctx, r)
}

func (g *gate) Settle(ctx context.Context, all ...budget.Settlement) ([]budget.Outcome, error) {
	if err := g.fails(); err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.ID == g.bad {
			return nil, errBad
		}
	}
	return g.Memory.Settle(ctx, all...)
}

// losses records what a queue gives up.
type losses struct {
	mu  sync.Mutex
	all []string
}

func (l *losses) add(s budget.Settlement, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf("%s: %v", s.ID, err))
}

func (l *losses) told() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func (g *gate) held(t *testing.T) int64 {
	t.Helper()
	u, err := g.Usage(t.Context(), "acme", budget.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return u.Day.Held.Requests
}

// reserveMany makes n reservations and returns their settlements.
func reserveMany(t *testing.T, l budget.Ledger, n int) (all []budget.Settlement) {
	t.Helper()
	for i := range n {
		r := reservation(fmt.Sprintf("r%d:1", i))
		r.Lease = time.Hour
		d, err := l.Reserve(t.Context(), r)
		if err != nil || !d.Granted {
			t.Fatal(d, err)
		}
		all = append(all, budget.Settlement{Ticket: d.Ticket, Actual: r.Estimate})
	}
	return all
}

// Settlements survive a temporary failure of the ledger, and nothing is lost in the end.
func TestTheQueueTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, lost := newGate(), &losses{}
		all := reserveMany(t, g, 200)
		g.set(errGone)
		q := budget.NewQueue(g, budget.QueueOptions{Lost: lost.add})
		for _, s := range all {
			q.Settle(s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if g.held(t) != 200 || q.Waiting() != 200 {
			t.Errorf("while it is gone %d are held and %d wait", g.held(t), q.Waiting())
		}
		if n := g.times() - 200; n > 130 { // without the reservations
			t.Errorf("it was asked %d times in a minute", n)
		}
		g.set(nil)
		q.Close(t.Context())
		if g.held(t) != 0 || q.Waiting() != 0 || len(lost.told()) > 0 {
			t.Errorf("after it is back %d are held, %d wait, lost are %v", g.held(t), q.Waiting(), lost.told())
		}
		q.Settle(all[0])
		if len(lost.told()) != 1 {
			t.Errorf("after Close lost are %v, want one", lost.told())
		}
	})
}

// A queue is limited in number and time, and reports what it gives up.
func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, lost := newGate(), &losses{}
		all := reserveMany(t, g, 4)
		g.set(errGone)
		q := budget.NewQueue(g, budget.QueueOptions{Entries: 2, For: time.Minute, Lost: lost.add})
		for _, s := range all[:3] {
			q.Settle(s)
		}
		if want := "[r2:1: <nil>]"; fmt.Sprint(lost.told()) != want {
			t.Errorf("lost are %v, want %s", lost.told(), want)
		}
		time.Sleep(time.Minute + 2*time.Second)
		synctest.Wait()
		if want := "[r2:1: <nil> r0:1: gone r1:1: gone]"; fmt.Sprint(lost.told()) != want || q.Waiting() != 0 {
			t.Errorf("after its time lost are %v, want %s", lost.told(), want)
		}
		q.Settle(all[3])
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		q.Close(ctx)
		if len(lost.told()) != 4 {
			t.Errorf("at the end lost are %v, want four", lost.told())
		}
	})
}

// One tenant's damaged record does not block the others' settlements.
func TestTheQueueGoesOnPastDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, lost := newGate(), &losses{}
		all := reserveMany(t, g, 100)
		g.bad = "r3:1"
		q := budget.NewQueue(g, budget.QueueOptions{For: time.Minute, Lost: lost.add})
		for _, s := range all {
			q.Settle(s)
		}
		q.Settle(budget.Settlement{Ticket: all[0].Ticket, Actual: budget.Amount{Tokens: -1}})
		q.Close(t.Context())
		if g.held(t) != 1 || len(lost.told()) != 2 {
			t.Errorf("%d are held, lost are %v; want the damaged one and the invalid one", g.held(t), lost.told())
		}
	})
}

// Row R1: while the shared ledger is down, a process grants its allowance and no more; without one
// it fails. What it granted is charged when the ledger is back.
func TestAllowanceR1(t *testing.T) {
	shared, abandoned := newGate(), []string{}
	f := budget.NewFallback(shared, budget.NewMemory(nil), func(s budget.Settlement) { abandoned = append(abandoned, s.ID) })
	ask := func(id string, allowance budget.Limits) (budget.Decision, error) {
		r := reservation(id)
		r.Limits = budget.Limits{budget.TokensPerDay: 1_000_000, budget.RequestsPerMinute: 50}
		r.Allowance = allowance
		return f.Reserve(t.Context(), r)
	}
	enough := budget.Limits{budget.TokensPerDay: 250, budget.RequestsPerMinute: 100}
	if d, err := ask("r0:1", enough); err != nil || !d.Granted || d.Ticket.Local || f.Local() {
		t.Fatalf("while it is there: %+v, %v", d, err)
	}
	shared.set(errGone)
	for _, allowance := range []budget.Limits{{}, {budget.TokensPerDay: 250}} {
		if d, err := ask("r1:1", allowance); !errors.Is(err, errGone) || d.Granted || f.Local() {
			t.Errorf("with the allowance %v: %+v, %v, want the error", allowance, d, err)
		}
	}
	shared.set(budget.ErrSkipped)
	var tickets []budget.Ticket
	for i := range 4 {
		d, err := ask(fmt.Sprintf("r2:%d", i), enough)
		if err != nil || d.Granted != (i < 2) || d.Ticket.Local != d.Granted && d.Granted || !f.Local() {
			t.Errorf("call %d of 100 tokens, of 250: %+v, %v", i, d, err)
		}
		if level := d.Levels[budget.RequestsPerMinute].Limit; level != 50 {
			t.Errorf("the limit by the minute is %d, want the tenant's own", level)
		}
		if d.Granted {
			tickets = append(tickets, d.Ticket)
		}
	}
	if want := "[r1:1 r1:1]"; fmt.Sprint(abandoned) != want {
		t.Errorf("abandoned are %v, want %s: a ledger that was not asked holds nothing", abandoned, want)
	}
	settlement := budget.Settlement{Ticket: tickets[0], Actual: budget.Amount{Requests: 1, Tokens: 70}}
	if _, err := f.Settle(t.Context(), settlement); err == nil {
		t.Error("settled while the charge cannot be made")
	}
	shared.set(nil)
	for range 3 {
		if _, err := f.Settle(t.Context(), settlement, budget.Settlement{Ticket: budget.Ticket{Tenant: "acme", ID: "r0:1"}}); err != nil {
			t.Fatal(err)
		}
	}
	u, err := shared.Usage(t.Context(), "acme", budget.Limits{})
	if err != nil || u.Day.Spent != settlement.Actual || u.Day.Held != (budget.Amount{}) || u.Day.Kinds[budget.Chat].Tokens != 70 {
		t.Errorf("charged are %+v, %v, want %+v once", u.Day, err, settlement.Actual)
	}
	shared.set(errBad)
	if d, err := ask("r9:1", enough); !errors.Is(err, budget.ErrCorrupt) || d.Granted {
		t.Errorf("a damaged record: %+v, %v, want the error", d, err)
	}
}
