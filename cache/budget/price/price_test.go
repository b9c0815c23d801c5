package price_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/cache/budget/price"
)

func TestParsePrice(t *testing.T) {
	for text, want := range map[string]price.USD{
		"0": 0, "0.0": 0, "1": 1e6, "1.25": 125e4, "0.125": 125e3, "10": 10e6, "0.000001": 1, "00.5": 5e5, "10000": 10_000e6, "10000.000000": 10_000e6,
	} {
		if got, err := price.ParsePrice(text); got != want || err != nil {
			t.Errorf("%s: got %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "blank", " ": "blank", "-1": "not an amount", "+1": "not an amount", "-0": "not an amount", "NaN": "not an amount", "Inf": "not an amount",
		"1e3": "not an amount", ".5": "not an amount", "5.": "not an amount", "1,5": "not an amount", "1_000": "not an amount", "0x1": "not an amount",
		"1.2.3": "not an amount", " 1": "not an amount", "٣": "not an amount", "1.0000001": "more than 6 digits", "0.00000000": "more than 6 digits",
		"10000.000001": "more than 10000", "1000000000000000000": "more than 10000", strings.Repeat("9", 99): "more than 10000",
	} {
		if got, err := price.ParsePrice(text); err == nil || !strings.Contains(err.Error(), want) || got != 0 {
			t.Errorf("%q: got %d, %v; want %q", text, got, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	p, err := price.Parse("1.25", "0.125", "10")
	if want := (price.Prices{Input: 125e4, CachedInput: 125e3, Output: 10e6}); p != want || err != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	p, err = price.Parse("1.25", "", "10")
	if want := (price.Prices{Input: 125e4, CachedInput: 125e4, Output: 10e6}); p != want || err != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	for want, c := range map[string][3]string{
		`input: blank; want`:           {"", "1", "1"},
		`cached_input: "x" is not`:     {"1", "x", "1"},
		`output: "-1" is not an amoun`: {"1", "", "-1"},
	} {
		if p, err := price.Parse(c[0], c[1], c[2]); err == nil || !strings.HasPrefix(err.Error(), want) || p != (price.Prices{}) {
			t.Errorf("%q: got %+v, %v", c, p, err)
		}
	}
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]price.USD{
		"0": 0, "1": price.Dollar, "0.000000000001": 1, "1500": 1500 * price.Dollar, "9223372.036854775807": math.MaxInt64, "0.25": price.Dollar / 4,
	} {
		if got, err := price.ParseUSD(text); got != want || err != nil || got.String() != text {
			t.Errorf("%s: got %d, %v, shown as %s", text, got, err, got)
		}
	}
	for _, text := range []string{"", "-1", "9223372.036854775808", "0.0000000000001", "1 USD", "$1"} {
		if got, err := price.ParseUSD(text); err == nil {
			t.Errorf("%q: got %d", text, got)
		}
	}
	for amount, want := range map[price.USD]string{-price.Dollar / 2: "-0.5", math.MinInt64: "-9223372.036854775808"} {
		if got := amount.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A cost is exact, or an error. (U14)
func TestCost(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := price.Prices{
			Input:       price.USD(rapid.Int64Range(0, int64(price.MaxPrice)).Draw(r, "input price")),
			CachedInput: price.USD(rapid.Int64Range(0, int64(price.MaxPrice)).Draw(r, "cached price")),
			Output:      price.USD(rapid.Int64Range(0, int64(price.MaxPrice)).Draw(r, "output price")),
		}
		in, cached, out := rapid.Int64().Draw(r, "input"), rapid.Int64().Draw(r, "cached"), rapid.Int64().Draw(r, "output")
		if rapid.Bool().Draw(r, "small") {
			in, cached, out = in%1e8, cached%1e8, out%1e8
		}
		got, err := p.Cost(in, cached, out)
		if in < 0 || cached < 0 || out < 0 || cached > in {
			if !errors.Is(err, price.ErrTokens) || got != 0 {
				r.Fatalf("got %d, %v", got, err)
			}
			return
		}
		n := func(tokens int64, each price.USD) *big.Int {
			return new(big.Int).Mul(big.NewInt(tokens), big.NewInt(int64(each)))
		}
		want := n(in-cached, p.Input)
		want.Add(want, n(cached, p.CachedInput)).Add(want, n(out, p.Output))
		if !want.IsInt64() {
			if !errors.Is(err, price.ErrOverflow) || got != 0 {
				r.Fatalf("got %d, %v, want %s", got, err, want)
			}
			return
		}
		if err != nil || big.NewInt(int64(got)).Cmp(want) != 0 {
			r.Fatalf("got %d, %v, want %s", got, err, want)
		}
		if most, err := p.Most(in, out); err == nil && most < got {
			r.Fatalf("%d at most, but %d", most, got)
		}
	})
}

func TestTable(t *testing.T) {
	table := price.Table{
		{Match: "gpt-5-mini*", Prices: price.Prices{Input: 1}}, {Match: "gpt-5*", Prices: price.Prices{Input: 2}},
		{Match: "House", Prices: price.Prices{Input: 3}},
	}
	for name, want := range map[string]price.USD{"gpt-5-mini-2025": 1, "GPT-5-MINI": 1, "gpt-5": 2, "gpt-5-nano": 2, "house": 3} {
		if p, err := table.Of("openai/"+name, name); p.Input != want || err != nil {
			t.Errorf("%s: got %d, %v", name, p.Input, err)
		}
	}
	for _, name := range []string{"", "gpt-4o", "house-2", "hous", strings.Repeat("x", 1000)} {
		p, err := table.Of(name)
		if !errors.Is(err, price.ErrNone) || p != (price.Prices{}) || len(fmt.Sprint(err)) > 200 {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
	if _, err := price.Table(nil).Of(); !errors.Is(err, price.ErrNone) {
		t.Error(err)
	}
}

// Whatever is read as an amount is shown as the same one.
func FuzzParseUSD(f *testing.F) {
	for _, text := range []string{"1.25", "0", "-1", "9223372.036854775807", "1e9", "."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		amount, err := price.ParseUSD(text)
		if err != nil {
			return
		}
		if again, err := price.ParseUSD(amount.String()); again != amount || err != nil || amount < 0 {
			t.Errorf("%q is %d, shown as %s", text, amount, amount)
		}
	})
}
