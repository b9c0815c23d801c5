package budget

import (
	"errors"
	"fmt"
	"math"
)

// A Rung is a step by which a request is made cheaper before it is refused.
type Rung string

// The rungs.
const (
	NoStages       Rung = "no_stages"       // a request of mode staged is answered as under inject
	FewerSources   Rung = "fewer_sources"   // half as many sources, in half the context tokens
	ShorterSources Rung = "shorter_sources" // half as many sources, in a quarter of the context tokens
	NoPlanner      Rung = "no_planner"      // nothing is planned
	NoReranker     Rung = "no_reranker"     // nothing is reranked or graded; on no ladder, as it is always tried
	NoSources      Rung = "no_sources"      // the request as it came
	RefuseRung     Rung = "refuse"          // ends each ladder
)

// Rungs lists all rungs but Refuse, in the usual order.
func Rungs() []Rung { return []Rung{NoStages, FewerSources, ShorterSources, NoPlanner, NoSources} }

// Terms are what a policy says of budgets. Without Limits they say what calls cost.
type Terms struct {
	Limits    Limits
	Allowance Limits // what one replica may grant while the ledger cannot be asked; zero: nothing
	Ladder    []Rung // tried in this order; then the request is refused, which is not listed
	Prices    PriceTable
	Unpriced  *Prices // of models that Prices does not have; nil: refused if money is limited
}

// Limited tells whether anything is limited.
func (t *Terms) Limited() bool { return t.Limits != Limits{} }

// Tokens tells whether tokens or money are limited, so that they must be known.
func (t *Terms) Tokens() bool {
	of := t.Limits
	of[RequestsPerMinute], of[ParallelRequests] = 0, 0
	return of != Limits{}
}

// Priced tells whether there is any price.
func (t *Terms) Priced() bool { return len(t.Prices) > 0 || t.Unpriced != nil }

// Money tells whether money is limited, so that the model's price must be known.
func (t *Terms) Money() bool {
	return t.Limits[MoneyPerDay] > 0 || t.Limits[MoneyPerMonth] > 0
}

// DefaultOutput returns how many tokens an answer may have that nobody limits, 0 for any
// number: a quarter of the smallest limit of tokens, so that no limit is too small for every
// request that says nothing.
func (t *Terms) DefaultOutput() (n int64) {
	for _, w := range [...]Window{TokensPerMinute, TokensPerDay} {
		if limit := t.Limits[w]; limit > 0 && (n == 0 || limit/4 < n) {
			n = max(limit/4, 1)
		}
	}
	return n
}

// PricesOf returns the prices of a model by its names. Without any the model is free where
// money is not limited; else the error wraps ErrNoPrice.
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

// Money returns a cost in the unit of budgets, rounded up: never is less charged than a call
// costs. A cost that cannot be computed is the largest that a ledger takes.
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
