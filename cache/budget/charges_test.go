package budget_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache/budget"
)

// A shaky ledger fails some calls, before or after they took effect.
type shaky struct {
	*budget.Memory
	calls int
	fails func(call int) (before, after error)
	well  atomic.Bool // no more failures
}

func (s *shaky) next() (before, after error) {
	if s.well.Load() {
		return nil, nil
	}
	s.calls++
	return s.fails(s.calls)
}

func (s *shaky) Reserve(ctx context.Context, r budget.Reservation) (budget.Decision, error) {
	before, after := s.next()
	if before != nil {
		return budget.Decision{}, before
	}
	d, err := s.Memory.Reserve(ctx, r)
	return d, errors.Join(err, after)
}

func (s *shaky) Settle(ctx context.Context, all ...budget.Settlement) ([]budget.Outcome, error) {
	before, after := s.next()
	if before != nil {
		return nil, before
	}
	outcomes, err := s.Memory.Settle(ctx, all...)
	return outcomes, errors.Join(err, after)
}

// The usage of tenants without limits is charged once, whatever fails meanwhile, and also at
// Close.
func TestCharges(t *testing.T) {
	down := errors.New("down")
	for name, fails := range map[string]func(int) (before, after error){
		"well":                  func(int) (error, error) { return nil, nil },
		"skipped at first":      func(n int) (error, error) { return map[bool]error{true: budget.ErrSkipped}[n < 4], nil },
		"fails at first":        func(n int) (error, error) { return map[bool]error{true: down}[n < 9], nil },
		"answers are lost":      func(n int) (error, error) { return nil, map[bool]error{true: down}[n%3 == 1] },
		"fails every other one": func(n int) (error, error) { return map[bool]error{true: down}[n%2 == 0], nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := &shaky{Memory: budget.NewMemory(nil), fails: fails}
				c := budget.NewCharges(ledger)
				one := budget.Amount{Requests: 1, Tokens: 10, Injected: 3, Money: 7}
				for range 20 {
					c.Add("acme", budget.Chat, one)
					c.Add("acme", budget.Planner, budget.Amount{Tokens: 5})
					c.Add("other", budget.Chat, one)
					time.Sleep(chargePause / 3)
				}
				time.Sleep(20 * chargePause)
				c.Add("acme", budget.Chat, one) // charged by Close
				ledger.well.Store(true)
				c.Close(t.Context())
				u, err := ledger.Usage(t.Context(), "acme", budget.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				want := budget.Amount{Requests: 21, Tokens: 21*10 + 20*5, Injected: 63, Money: 147}
				if u.Day.Spent != want || u.Month.Spent != want || u.Day.Held != (budget.Amount{}) || u.Day.Kinds[budget.Planner].Tokens != 100 {
					t.Errorf("spent %+v, want %+v", u.Day, want)
				}
				if u, err = ledger.Usage(t.Context(), "other", budget.Limits{}); err != nil || u.Day.Spent.Requests != 20 {
					t.Errorf("the other: %+v, %v", u.Day, err)
				}
			})
		})
	}
}

const chargePause = time.Second
