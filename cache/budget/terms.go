package budget

import (
	"errors"
	"fmt"
	"math"
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
