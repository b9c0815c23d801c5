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

// PicoDollars is an amount of money in 10⁻¹² US dollars. The largest is about 9.2 million dollars.
type PicoDollars int64

// Dollar is one US dollar.
const Dollar PicoDollars = 1e12

// decimals is how many decimal places of a dollar PicoDollars has.
const decimals = 12

// String returns the amount in dollars, such as "1.25", with all digits that are not zero.
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

// ParseUSD reads an amount in dollars: digits, and up to twelve more behind a point. Blank
// text, signs, exponents and anything else that is no such number are errors.
func ParseUSD(text string) (PicoDollars, error) { return parse(text, decimals, math.MaxInt64) }

// MaxPrice is the largest price of a token: 10,000 dollars for a million of them, several
// times what the dearest model takes.
const MaxPrice = 10_000 * Dollar / million

const million = 1_000_000

// ParsePrice reads a price in dollars per million tokens, as vendors state it, and returns
// that of one token. It may have six digits behind the point, so that nothing is lost, and
// is at most 10,000. Zero is a price: that of a model that costs nothing.
func ParsePrice(text string) (PicoDollars, error) { return parse(text, decimals-6, MaxPrice) }

// parse reads a decimal number with up to so many digits behind the point, in units of the
// last of them.
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

// limit returns the largest number that parse takes, as it is written.
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

// Prices are those of one token of a model.
type Prices struct {
	Input        PicoDollars // a token of the prompt
	CachedInput  PicoDollars // a token of the prompt that the upstream had in its cache
	CacheWrite   PicoDollars // a token of the prompt that the upstream wrote into its cache
	CacheWrite1h PicoDollars // likewise, to be kept for an hour
	Output       PicoDollars // a token of the answer, reasoning included
}

// A Text has Prices in dollars per million tokens, see ParsePrice. What is blank costs what
// something else does: CachedInput and CacheWrite what Input does, and CacheWrite1h what
// CacheWrite does.
type Text struct{ Input, CachedInput, CacheWrite, CacheWrite1h, Output string }

// Parse reads prices. An error names the field and the value.
func (t Text) Parse() (p Prices, err error) {
	t.CachedInput = cmp.Or(t.CachedInput, t.Input)
	t.CacheWrite = cmp.Or(t.CacheWrite, t.Input)
	t.CacheWrite1h = cmp.Or(t.CacheWrite1h, t.CacheWrite)
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
	return p, nil
}

// ParsePrices reads prices of a model whose upstream does not charge for writing into its cache.
func ParsePrices(input, cachedInput, output string) (Prices, error) {
	return Text{Input: input, CachedInput: cachedInput, Output: output}.Parse()
}

// The errors of costs.
var (
	// ErrPriceOverflow: the cost is more than a USD holds.
	ErrPriceOverflow = errors.New("the cost is more than 9 million dollars")
	// ErrPriceTokens: a number of tokens is negative, or a part is more than the whole.
	ErrPriceTokens = errors.New("impossible number of tokens")
)

// Tokens are what an answer took.
type Tokens struct {
	Input        int64 // of the prompt, the next two included
	CachedInput  int64 // read from the upstream's cache
	CacheWrite   int64 // written into it, those of CacheWrite1h included
	CacheWrite1h int64 // to be kept for an hour
	Output       int64
}

// Cost returns what an answer costs.
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

// Most returns what an answer costs at most that takes up to so many tokens, whatever the
// upstream's cache has.
func (p Prices) Most(input, output int64) (PicoDollars, error) {
	p.Input = max(p.Input, p.CachedInput, p.CacheWrite, p.CacheWrite1h)
	return p.Cost(Tokens{Input: input, Output: output})
}
