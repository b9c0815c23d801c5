package budget_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache/budget"
)

// A watch is a MeterObserver that records its calls.
type watch struct{ told []string }

func (w *watch) Refused(_ string, window budget.Window)           { w.note("refused " + window.String()) }
func (w *watch) Stepped(r budget.Rung)                            { w.note("stepped " + string(r)) }
func (w *watch) Seen(string, budget.Levels)                       {}
func (w *watch) Expired(int)                                      { w.note("expired") }
func (w *watch) RolledBack(string)                                { w.note("rolled back") }
func (w *watch) LedgerFailed()                                    { w.note("failed") }
func (w *watch) Settled(_ string, _ budget.Kind, _ budget.Amount) { w.note("settled") }
func (w *watch) note(s string)                                    { w.told = append(w.told, s) }
func (w *watch) Settle(s budget.Settlement)                       { w.note("settle " + s.ID) }

// tokens returns the amount of a call with these tokens, some of them injected.
func tokens(all, injected int64) budget.Amount {
	return budget.Amount{Requests: 1, Tokens: all, Injected: injected}
}

// The ladder is tried in order. A rung that changes nothing, or that cannot help according to the
// levels, is skipped; the last one is always tried. If requests themselves are limited, no rung
// helps.
func TestLadder(t *testing.T) {
	ladder := []budget.Rung{budget.FewerSources, budget.ShorterSources, budget.NoSources}
	takes := map[budget.Rung]int64{budget.FewerSources: 80, budget.ShorterSources: 60, budget.NoSources: 40}
	for name, c := range map[string]struct {
		limits  budget.Limits
		unknown budget.Rung // rung that changes nothing
		tried   []budget.Rung
		asked   int // calls of the ledger
		rung    budget.Rung
		told    []string
	}{
		"room":       {budget.Limits{budget.TokensPerDay: 100}, "", nil, 1, "", nil},
		"first":      {budget.Limits{budget.TokensPerDay: 80}, "", ladder[:1], 2, budget.FewerSources, []string{"stepped fewer_sources"}},
		"second":     {budget.Limits{budget.TokensPerMinute: 60}, "", ladder[:2], 2, budget.ShorterSources, []string{"stepped shorter_sources"}},
		"third":      {budget.Limits{budget.TokensPerDay: 59}, "", ladder, 2, budget.NoSources, []string{"stepped no_sources"}},
		"none":       {budget.Limits{budget.TokensPerDay: 39}, "", ladder, 2, budget.RefuseRung, []string{"refused tokens_per_day"}},
		"no such":    {budget.Limits{budget.TokensPerDay: 80}, budget.FewerSources, ladder[:2], 2, budget.ShorterSources, []string{"stepped shorter_sources"}},
		"no last":    {budget.Limits{budget.TokensPerDay: 59}, budget.NoSources, ladder, 1, budget.RefuseRung, []string{"refused tokens_per_day"}},
		"injected":   {budget.Limits{budget.InjectedPerDay: 30}, "", ladder[:2], 2, budget.ShorterSources, []string{"stepped shorter_sources"}},
		"by request": {budget.Limits{budget.ParallelRequests: 1}, "", nil, 1, budget.RefuseRung, []string{"refused max_parallel_requests"}},
	} {
		t.Run(name, func(t *testing.T) {
			ledger, w := &counting{Memory: budget.NewMemory(nil)}, new(watch)
			m := budget.NewMeter(ledger, ledger, w, w)
			if c.limits[budget.ParallelRequests] > 0 {
				if _, _, err := m.Reserve(t.Context(), &budget.Terms{}, budget.MeteredCall{Tenant: "t", ID: "other", Kind: budget.Chat, Estimate: tokens(1, 0)}, nil); err != nil {
					t.Fatal(err)
				}
				ledger.asked = 0
			}
			var tried []budget.Rung
			terms := &budget.Terms{Limits: c.limits, Ladder: ladder}
			hold, rung, err := m.Reserve(t.Context(), terms, budget.MeteredCall{Tenant: "t", ID: "a:1", Kind: budget.Chat, Estimate: tokens(100, 60)}, func(r budget.Rung, call *budget.MeteredCall) bool {
				tried = append(tried, r)
				call.Estimate = tokens(takes[r], takes[r]-40)
				return r != c.unknown
			})
			if rung != c.rung || !slices.Equal(tried, c.tried) || ledger.asked != c.asked || !slices.Equal(w.told, c.told) {
				t.Errorf("%q, tried %v, asked %d times, told %v", rung, tried, ledger.asked, w.told)
			}
			refusal, refused := errors.AsType[*budget.Refusal](err)
			if refused != (c.rung == budget.RefuseRung) || (hold == nil) != refused || refused && refusal.Levels == (budget.Levels{}) {
				t.Errorf("%v, %v", hold, err)
			}
			if want := takes[rung]; hold != nil && want > 0 && hold.Estimate().Tokens != want {
				t.Errorf("reserved %+v", hold.Estimate())
			}
		})
	}
}

// A counting ledger counts its calls.
type counting struct {
	*budget.Memory
	asked   int
	renewed atomic.Int64 // by the goroutine that renews
}

func (c *counting) Reserve(ctx context.Context, r budget.Reservation) (budget.Decision, error) {
	c.asked++
	return c.Memory.Reserve(ctx, r)
}

func (c *counting) Renew(ctx context.Context, t budget.Ticket, lease time.Duration) (bool, error) {
	c.renewed.Add(1)
	return c.Memory.Renew(ctx, t, lease)
}

// A reservation that lasts longer than its lease is renewed until it is settled, and then charged
// the actual amount, not the estimate; a second settlement is ignored.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, w := &counting{Memory: budget.NewMemory(time.Now)}, new(watch)
		settles := settler(func(s budget.Settlement) {
			if got, err := ledger.Settle(t.Context(), s); err != nil || got[0] != budget.Settled {
				t.Errorf("settled: %v, %v", got, err)
			}
		})
		m := budget.NewMeter(ledger, ledger, settles, w)
		ctx, stop := context.WithCancel(t.Context())
		go m.Run(ctx)
		terms := &budget.Terms{Limits: budget.Limits{budget.TokensPerDay: 1000}}
		hold, _, err := m.Reserve(t.Context(), terms, budget.MeteredCall{Tenant: "t", ID: "a:1", Kind: budget.Chat, Estimate: tokens(100, 0)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if u, err := ledger.Usage(t.Context(), "t", terms.Limits); err != nil || u.Day.Held != tokens(100, 0) || u.Expired != 0 || ledger.renewed.Load() < 30 {
			t.Errorf("after an hour: %+v, %v, renewed %d times", u, err, ledger.renewed.Load())
		}
		hold.Settle(tokens(7, 0))
		hold.Settle(tokens(8, 0))
		renewed := ledger.renewed.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		if u, err := ledger.Usage(t.Context(), "t", terms.Limits); err != nil || u.Day.Held != (budget.Amount{}) || u.Day.Spent != tokens(7, 0) || ledger.renewed.Load() != renewed || m.Open() != 0 {
			t.Errorf("settled: %+v, %v, renewed %d times more", u, err, ledger.renewed.Load()-renewed)
		}
		stop()
	})
}

type settler func(budget.Settlement)

func (f settler) Settle(s budget.Settlement) { f(s) }

// Messages and headers of a refusal.
func TestRefusal(t *testing.T) {
	level := func(w budget.Window, l budget.Level) (out budget.Levels) {
		out[w] = l
		return out
	}
	for want, c := range map[string]struct {
		r       budget.Refusal
		headers map[string]string
	}{
		"Your limit tokens_per_minute, 500, is reached; try again in 1.5s.": {
			budget.Refusal{Window: budget.TokensPerMinute, Wait: 1500 * time.Millisecond, Levels: level(budget.TokensPerMinute, budget.Level{Limit: 500, Left: 3, Reset: 59 * time.Second})},
			map[string]string{"Retry-After": "2", "Retry-After-Ms": "1500", "X-Ratelimit-Limit-Tokens": "500", "X-Ratelimit-Remaining-Tokens": "3", "X-Ratelimit-Reset-Tokens": "59s"},
		},
		"This request alone may take more than your limit usd_per_month, $1500.5; make it shorter, or set a lower limit for its answer.": {
			budget.Refusal{Window: budget.MoneyPerMonth, Never: true, Levels: level(budget.MoneyPerMonth, budget.Level{Limit: 1500_500_000_000})},
			map[string]string{"X-Should-Retry": "false"},
		},
		"Your limit injected_tokens_per_day, 9, is reached; try again in 1s.": { // until others have ended
			budget.Refusal{Window: budget.InjectedPerDay, Wait: time.Second, Levels: level(budget.InjectedPerDay, budget.Level{Limit: 9})},
			map[string]string{"Retry-After": "1", "Retry-After-Ms": "1000"},
		},
	} {
		got := map[string]string{}
		c.r.Headers(false, func(name, value string) { got[name] = value })
		if text := c.r.Error(); text != want || !reflect.DeepEqual(got, c.headers) {
			t.Errorf("%s\nwant %s\n%v", text, want, got)
		}
	}
}

// A cost is rounded up to the unit of budgets, and limited.
func TestMoney(t *testing.T) {
	const unit = budget.PicoDollars(budget.Dollar / budget.USD)
	for cost, want := range map[budget.PicoDollars]int64{0: 0, 1: 1, unit: 1, unit + 1: 2, budget.Dollar: budget.USD, math.MaxInt64: budget.MaxAmount} {
		if got := budget.Money(cost, nil); got != want {
			t.Errorf("%d: %d, want %d", cost, got, want)
		}
	}
	if got := budget.Money(0, budget.ErrPriceOverflow); got != budget.MaxAmount {
		t.Errorf("overflow: %d", got)
	}
}
