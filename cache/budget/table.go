package budget

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoPrice means that no row of the table has a price for a model. The policy decides whether to
// refuse the request or to use a configured price.
var ErrNoPrice = errors.New("no price")

// A PriceRow has the prices of the models that match a pattern: a name, or a prefix that ends in
// '*'. Letter case is ignored.
type PriceRow struct {
	Match string
	Prices
	Tiers map[string]Prices // by service_tier, for requests that the upstream serves at other prices
}

// A Tariff has all prices of a model.
type Tariff struct {
	Prices                   // the standard prices
	Tiers  map[string]Prices // see PriceRow
}

// Of returns the prices of a tier, or the standard prices if it has none of its own.
func (t *Tariff) Of(tier string) Prices {
	if p, ok := t.Tiers[tier]; ok {
		return p
	}
	return t.Prices
}

// auto is the tier of a request that lets the upstream choose, as does a request without one.
const auto = "auto"

// A Tier holds the service_tier that a request asks for, and the one that its answer reports; ""
// if there is none.
type Tier struct{ Requested, Reported string }

// Cost returns the cost of an answer, and the tier whose prices it is based on, "" for the
// standard ones. The tier that the answer reports counts. If it reports none, the requested one
// counts if it costs more than standard, since the upstream may not know it. A tier without prices
// costs the standard prices.
func (t *Tariff) Cost(n Tokens, tier Tier) (cost PicoDollars, by string, err error) {
	if cost, err = t.Prices.Cost(n); err != nil && !errors.Is(err, ErrPriceOverflow) {
		return 0, "", err
	}
	told := tier.Reported != "" && tier.Reported != auto
	if !told {
		tier.Reported = tier.Requested
	}
	p, ok := t.Tiers[tier.Reported]
	if !ok {
		return cost, "", err
	}
	if of, failed := p.Cost(n); told || failed != nil || err == nil && of > cost {
		return of, tier.Reported, failed
	}
	return cost, "", err
}

// MaxCost returns the maximum cost of an answer with up to that many tokens, whatever the
// upstream's cache holds: at the standard prices, or those of the requested tier. If none was
// requested, it may be any.
func (t *Tariff) MaxCost(input, output int64, asked string) (PicoDollars, error) {
	most, err := t.Prices.MaxCost(input, output)
	for tier, p := range t.Tiers {
		if err == nil && (tier == asked || asked == "" || asked == auto) {
			var of PicoDollars
			of, err = p.MaxCost(input, output)
			most = max(most, of)
		}
	}
	if err != nil {
		return 0, err
	}
	return most, nil
}

// A PriceTable has the prices of models; the first row that matches counts. A nil table has none:
// prices change, so none are built in.
type PriceTable []PriceRow

// Of returns the prices of a model, or an error that wraps ErrNoPrice and names it. A model may
// have several names, such as with and without its vendor: the first one that any row matches
// counts.
func (t PriceTable) Of(names ...string) (Tariff, error) {
	if p, ok := t.Find(names...); ok {
		return p, nil
	}
	shown := ""
	if len(names) > 0 {
		shown = names[0]
	}
	return Tariff{}, fmt.Errorf("model %.128q: %w", shown, ErrNoPrice)
}

// Find is like Of but returns ok = false instead of an error.
func (t PriceTable) Find(names ...string) (p Tariff, ok bool) {
	for _, name := range names {
		for i := range t {
			if t[i].matches(name) {
				return Tariff{t[i].Prices, t[i].Tiers}, true
			}
		}
	}
	return Tariff{}, false
}

func (r *PriceRow) matches(name string) bool {
	prefix, open := strings.CutSuffix(r.Match, "*")
	return len(name) >= len(prefix) && (open || len(name) == len(prefix)) && strings.EqualFold(name[:len(prefix)], prefix)
}
