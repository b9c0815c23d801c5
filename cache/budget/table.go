package budget

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoPrice: no row of the table has a price for a model. It is for the policy to refuse the
// request, or to take a price that its owner states.
var ErrNoPrice = errors.New("no price")

// A PriceRow has the prices of the models that a pattern matches: a name, or a prefix that ends
// in '*'. Letter case does not count.
type PriceRow struct {
	Match string
	Prices
	Tiers map[string]Prices // of requests that the upstream serves at other prices, by service_tier
}

// A Tariff has all prices of a model.
type Tariff struct {
	Prices                   // the usual ones
	Tiers  map[string]Prices // see Row
}

// Of returns the prices of a tier; those of one that has none are the usual ones.
func (t *Tariff) Of(tier string) Prices {
	if p, ok := t.Tiers[tier]; ok {
		return p
	}
	return t.Prices
}

// auto is the tier of a request that lets the upstream choose, as one does that names none.
const auto = "auto"

// A Tier is the service_tier that a request asks for, and the one that its answer tells; "" where
// there is none.
type Tier struct{ Asked, Told string }

// Cost returns what an answer costs, and the tier whose prices that rests on, "" for the usual
// ones. The tier that the answer tells counts. Where it tells none, the one that was asked for
// counts if it is dearer than usual: the upstream may not know it. A tier without prices costs
// what is usual.
func (t *Tariff) Cost(n Tokens, tier Tier) (cost PicoDollars, by string, err error) {
	if cost, err = t.Prices.Cost(n); err != nil && !errors.Is(err, ErrPriceOverflow) {
		return 0, "", err
	}
	told := tier.Told != "" && tier.Told != auto
	if !told {
		tier.Told = tier.Asked
	}
	p, ok := t.Tiers[tier.Told]
	if !ok {
		return cost, "", err
	}
	if of, failed := p.Cost(n); told || failed != nil || err == nil && of > cost {
		return of, tier.Told, failed
	}
	return cost, "", err
}

// Most returns what an answer costs at most that takes up to so many tokens, whatever the
// upstream's cache has: at the usual prices, or those of the tier that was asked for. If none was,
// it may be any.
func (t *Tariff) Most(input, output int64, asked string) (PicoDollars, error) {
	most, err := t.Prices.Most(input, output)
	for tier, p := range t.Tiers {
		if err == nil && (tier == asked || asked == "" || asked == auto) {
			var of PicoDollars
			of, err = p.Most(input, output)
			most = max(most, of)
		}
	}
	if err != nil {
		return 0, err
	}
	return most, nil
}

// A PriceTable has the prices of models; the first row that matches counts. Nil has none: prices
// change, so none are built in.
type PriceTable []PriceRow

// Of returns the prices of a model, or an error that wraps ErrNone and names it. A model may
// have several names, such as those with and without its vendor's: the first that any row
// matches counts.
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

// Find is Of for those who can do without a price: ok is false if there is none.
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
