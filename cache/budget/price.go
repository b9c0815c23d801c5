package budget

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// PicoDollars is an amount of money in 10⁻¹² US dollars, up to about 9.2 million dollars.
type PicoDollars int64

// Dollar is one US dollar.
const Dollar PicoDollars = 1e12

// decimals is the number of decimal places of PicoDollars.
const decimals = 12

// String returns the exact amount in dollars, such as "1.25".
func (u PicoDollars) String() string {
	sign, n := "", uint64(u)
	if u < 0 {
		sign, n = "-", -n
	}
	whole, rest := n/uint64(Dollar), n%uint64(Dollar)
	if rest == 0 {
		return sign + strconv.FormatUint(whole, 10)
	}
	return sign + strconv.FormatUint(whole, 10) + "." + strings.TrimRight(fmt.Sprintf("%0*d", decimals, rest), "0")
}

// ParseUSD parses an amount in dollars: digits, optionally a point and up to twelve more digits.
// Anything else, such as blank text, signs and exponents, is an error.
func ParseUSD(text string) (PicoDollars, error) { return parse(text, decimals, math.MaxInt64) }

// MaxPrice is the largest price of a token: 10,000 dollars per million tokens, several times the
// price of the most expensive model.
const MaxPrice = 10_000 * Dollar / million

const million = 1_000_000

// ParsePrice parses a price in dollars per million tokens, as vendors state it, and returns the
// price of one token. It may have up to six decimal places, so that nothing is lost, and is at
// most 10,000. Zero is valid, for a model that costs nothing.
func ParsePrice(text string) (PicoDollars, error) { return parse(text, decimals-6, MaxPrice) }

// parse parses a decimal number with up to digits decimal places, and returns it in units of the
// last place.
func parse(text string, digits int, most PicoDollars) (PicoDollars, error) {
	whole, fraction, point := strings.Cut(text, ".")
	switch {
	case strings.TrimSpace(text) == "":
		return 0, errors.New("blank; want an amount of dollars such as 1.25")
	case !isDigits(whole) || point && !isDigits(fraction):
		return 0, fmt.Errorf("%q is not an amount of dollars such as 1.25", text)
	case len(fraction) > digits:
		return 0, fmt.Errorf("%q has more than %d digits behind the point", text, digits)
	}
	n, err := strconv.ParseUint(whole+fraction+strings.Repeat("0", digits-len(fraction)), 10, 64)
	if err != nil || n > uint64(most) {
		return 0, fmt.Errorf("%q is more than %s", text, limit(digits, most))
	}
	return PicoDollars(n), nil
}

// limit returns the largest number that parse accepts, as text.
func limit(digits int, most PicoDollars) string {
	unit := uint64(1)
	for range digits {
		unit *= 10
	}
	return strconv.FormatUint(uint64(most)/unit, 10)
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Prices are the prices of one token of a model.
type Prices struct {
	Input        PicoDollars // per prompt token
	CachedInput  PicoDollars // per prompt token read from the upstream's cache
	CacheWrite   PicoDollars // per prompt token written to the upstream's cache
	CacheWrite1h PicoDollars // the same, for tokens cached for an hour
	Output       PicoDollars // per token of the answer, including reasoning
}

// A PriceText holds Prices as text in dollars per million tokens, see ParsePrice. Blank fields have
// the highest usual price: Input for CachedInput, 1.25 × Input for CacheWrite, and 2 × Input for
// CacheWrite1h, or CacheWrite if that is more.
type PriceText struct{ Input, CachedInput, CacheWrite, CacheWrite1h, Output string }

// Parse parses the prices. An error names the field and the value.
func (t PriceText) Parse() (p Prices, err error) {
	t.CachedInput = cmp.Or(t.CachedInput, t.Input)
	write, hour := t.CacheWrite == "", t.CacheWrite1h == ""
	t.CacheWrite, t.CacheWrite1h = cmp.Or(t.CacheWrite, t.Input), cmp.Or(t.CacheWrite1h, t.Input)
	for _, f := range []struct {
		name, text string
		to         *PicoDollars
	}{
		{"input", t.Input, &p.Input}, {"cached_input", t.CachedInput, &p.CachedInput}, {"cache_write", t.CacheWrite, &p.CacheWrite},
		{"cache_write_1h", t.CacheWrite1h, &p.CacheWrite1h}, {"output", t.Output, &p.Output},
	} {
		if *f.to, err = ParsePrice(f.text); err != nil {
			return Prices{}, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if write {
		p.CacheWrite = p.Input + (p.Input+3)/4
	}
	if hour {
		p.CacheWrite1h = max(2*p.Input, p.CacheWrite)
	}
	return p, nil
}

// ParsePrices parses the prices of a model whose upstream charges cache writes like other input.
func ParsePrices(input, cachedInput, output string) (Prices, error) {
	return PriceText{Input: input, CachedInput: cachedInput, CacheWrite: input, CacheWrite1h: input, Output: output}.Parse()
}

// Errors of cost calculations.
var (
	// ErrPriceOverflow: the cost exceeds the range of PicoDollars.
	ErrPriceOverflow = errors.New("the cost is more than 9 million dollars")
	// ErrPriceTokens: a number of tokens is negative, or a part exceeds the whole.
	ErrPriceTokens = errors.New("impossible number of tokens")
)

// Tokens is the token usage of an answer.
type Tokens struct {
	Input        int64 // of the prompt, including CachedInput and CacheWrite
	CachedInput  int64 // read from the upstream's cache
	CacheWrite   int64 // written to it, including CacheWrite1h
	CacheWrite1h int64 // cached for an hour
	Output       int64
}

// Cost returns the cost of an answer.
func (p Prices) Cost(t Tokens) (PicoDollars, error) {
	plain, written := t.Input-t.CachedInput-t.CacheWrite, t.CacheWrite-t.CacheWrite1h
	if min(t.CachedInput, t.CacheWrite, t.CacheWrite1h, t.Output, t.Input-t.CachedInput, plain, written) < 0 {
		return 0, fmt.Errorf("%w: input %d, cached input %d, cache write %d (%d of it for an hour), output %d",
			ErrPriceTokens, t.Input, t.CachedInput, t.CacheWrite, t.CacheWrite1h, t.Output)
	}
	var sum uint64
	for _, part := range [...]struct {
		tokens int64
		price  PicoDollars
	}{{plain, p.Input}, {t.CachedInput, p.CachedInput}, {written, p.CacheWrite}, {t.CacheWrite1h, p.CacheWrite1h}, {t.Output, p.Output}} {
		high, low := bits.Mul64(uint64(part.tokens), uint64(part.price))
		var carry uint64
		sum, carry = bits.Add64(sum, low, 0)
		if high > 0 || carry > 0 || sum > math.MaxInt64 {
			return 0, ErrPriceOverflow
		}
	}
	return PicoDollars(sum), nil
}

// A Demand holds the most tokens that a request can use.
type Demand struct {
	Input, Output int64
	ForHour       bool // the upstream may cache the input for an hour
}

// MaxCost returns the maximum cost of a request, whatever the upstream's cache holds.
func (p Prices) MaxCost(d Demand) (PicoDollars, error) {
	p.Input = max(p.Input, p.CachedInput, p.CacheWrite)
	if d.ForHour {
		p.Input = max(p.Input, p.CacheWrite1h)
	}
	return p.Cost(Tokens{Input: d.Input, Output: d.Output})
}

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

// MaxCost returns the maximum cost of a request, whatever the upstream's cache holds: at the
// standard prices, or those of the requested tier. If none was requested, it may be any.
func (t *Tariff) MaxCost(d Demand, asked string) (PicoDollars, error) {
	most, err := t.Prices.MaxCost(d)
	for tier, p := range t.Tiers {
		if err == nil && (tier == asked || asked == "" || asked == auto) {
			var of PicoDollars
			of, err = p.MaxCost(d)
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
