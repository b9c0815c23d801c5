// Package price tells what the tokens of an answer cost, exactly: amounts are integers, and
// nothing is rounded.
package price

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// A USD is an amount of money in 10⁻¹² US dollars. The largest is about 9.2 million dollars.
type USD int64

// Dollar is one US dollar.
const Dollar USD = 1e12

// decimals is how many digits of a dollar a USD has behind the point.
const decimals = 12

// String returns the amount in dollars, such as "1.25", with all digits that are not zero.
func (u USD) String() string {
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
func ParseUSD(text string) (USD, error) { return parse(text, decimals, math.MaxInt64) }

// MaxPrice is the largest price of a token: 10,000 dollars for a million of them, several
// times what the dearest model takes.
const MaxPrice = 10_000 * Dollar / million

const million = 1_000_000

// ParsePrice reads a price in dollars per million tokens, as vendors state it, and returns
// that of one token. It may have six digits behind the point, so that nothing is lost, and
// is at most 10,000. Zero is a price: that of a model that costs nothing.
func ParsePrice(text string) (USD, error) { return parse(text, decimals-6, MaxPrice) }

// parse reads a decimal number with up to so many digits behind the point, in units of the
// last of them.
func parse(text string, digits int, most USD) (USD, error) {
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
	return USD(n), nil
}

// limit returns the largest number that parse takes, as it is written.
func limit(digits int, most USD) string {
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
	Input       USD // a token of the prompt
	CachedInput USD // a token of the prompt that the upstream had in its cache
	Output      USD // a token of the answer, reasoning included
}

// Parse reads prices in dollars per million tokens, see ParsePrice. If cachedInput is ""
// such tokens cost what others of the prompt do. An error names the field and the value.
func Parse(input, cachedInput, output string) (p Prices, err error) {
	if cachedInput == "" {
		cachedInput = input
	}
	for _, f := range []struct {
		name, text string
		to         *USD
	}{{"input", input, &p.Input}, {"cached_input", cachedInput, &p.CachedInput}, {"output", output, &p.Output}} {
		if *f.to, err = ParsePrice(f.text); err != nil {
			return Prices{}, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return p, nil
}

// The errors of costs.
var (
	// ErrOverflow: the cost is more than a USD holds.
	ErrOverflow = errors.New("the cost is more than 9 million dollars")
	// ErrTokens: a number of tokens is negative, or more are cached than there are.
	ErrTokens = errors.New("impossible number of tokens")
)

// Cost returns what an answer costs that took input tokens, cachedInput of them from the
// upstream's cache, and output tokens.
func (p Prices) Cost(input, cachedInput, output int64) (USD, error) {
	if cachedInput < 0 || output < 0 || input < cachedInput {
		return 0, fmt.Errorf("%w: input %d, cached input %d, output %d", ErrTokens, input, cachedInput, output)
	}
	var sum uint64
	for _, part := range [...]struct {
		tokens int64
		price  USD
	}{{input - cachedInput, p.Input}, {cachedInput, p.CachedInput}, {output, p.Output}} {
		high, low := bits.Mul64(uint64(part.tokens), uint64(part.price))
		var carry uint64
		sum, carry = bits.Add64(sum, low, 0)
		if high > 0 || carry > 0 || sum > math.MaxInt64 {
			return 0, ErrOverflow
		}
	}
	return USD(sum), nil
}

// Most returns what an answer costs at most that takes up to so many tokens, whatever the
// upstream's cache has.
func (p Prices) Most(input, output int64) (USD, error) {
	p.Input = max(p.Input, p.CachedInput)
	return p.Cost(input, 0, output)
}
