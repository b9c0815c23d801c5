package budget_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/cache/budget"
)

func TestParsePrice(t *testing.T) {
	for text, want := range map[string]budget.PicoDollars{
		"0": 0, "0.0": 0, "1": 1e6, "1.25": 125e4, "0.125": 125e3, "10": 10e6, "0.000001": 1, "00.5": 5e5, "10000": 10_000e6, "10000.000000": 10_000e6,
	} {
		if got, err := budget.ParsePrice(text); got != want || err != nil {
			t.Errorf("%s: got %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "blank", " ": "blank", "-1": "not an amount", "+1": "not an amount", "-0": "not an amount", "NaN": "not an amount", "Inf": "not an amount",
		"1e3": "not an amount", ".5": "not an amount", "5.": "not an amount", "1,5": "not an amount", "1_000": "not an amount", "0x1": "not an amount",
		"1.2.3": "not an amount", " 1": "not an amount", "٣": "not an amount", "1.0000001": "more than 6 digits", "0.00000000": "more than 6 digits",
		"10000.000001": "more than 10000", "1000000000000000000": "more than 10000", strings.Repeat("9", 99): "more than 10000",
	} {
		if got, err := budget.ParsePrice(text); err == nil || !strings.Contains(err.Error(), want) || got != 0 {
			t.Errorf("%q: got %d, %v; want %q", text, got, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	p, err := budget.ParsePrices("1.25", "0.125", "10")
	if want := (budget.Prices{Input: 125e4, CachedInput: 125e3, CacheWrite: 125e4, CacheWrite1h: 125e4, Output: 10e6}); p != want || err != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	p, err = budget.ParsePrices("1.25", "", "10")
	if want := (budget.Prices{Input: 125e4, CachedInput: 125e4, CacheWrite: 125e4, CacheWrite1h: 125e4, Output: 10e6}); p != want || err != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	p, err = budget.PriceText{Input: "0.000003", Output: "10"}.Parse()
	if want := (budget.Prices{Input: 3, CachedInput: 3, CacheWrite: 4, CacheWrite1h: 6, Output: 10e6}); p != want || err != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	p, err = budget.PriceText{Input: "5", CachedInput: "0.5", CacheWrite: "6.25", Output: "30"}.Parse()
	if want := (budget.Prices{Input: 5e6, CachedInput: 5e5, CacheWrite: 625e4, CacheWrite1h: 10e6, Output: 30e6}); p != want || err != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err = (budget.PriceText{Input: "5", CacheWrite1h: "-1", Output: "30"}).Parse(); err == nil || !strings.HasPrefix(err.Error(), `cache_write_1h: "-1" is not an amount`) {
		t.Errorf("got %v", err)
	}
	for want, c := range map[string][3]string{
		`input: blank; want`:           {"", "1", "1"},
		`cached_input: "x" is not`:     {"1", "x", "1"},
		`output: "-1" is not an amoun`: {"1", "", "-1"},
	} {
		if p, err := budget.ParsePrices(c[0], c[1], c[2]); err == nil || !strings.HasPrefix(err.Error(), want) || p != (budget.Prices{}) {
			t.Errorf("%q: got %+v, %v", c, p, err)
		}
	}
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]budget.PicoDollars{
		"0": 0, "1": budget.Dollar, "0.000000000001": 1, "1500": 1500 * budget.Dollar, "9223372.036854775807": math.MaxInt64, "0.25": budget.Dollar / 4,
	} {
		if got, err := budget.ParseUSD(text); got != want || err != nil || got.String() != text {
			t.Errorf("%s: got %d, %v, shown as %s", text, got, err, got)
		}
	}
	for _, text := range []string{"", "-1", "9223372.036854775808", "0.0000000000001", "1 USD", "$1"} {
		if got, err := budget.ParseUSD(text); err == nil {
			t.Errorf("%q: got %d", text, got)
		}
	}
	for amount, want := range map[budget.PicoDollars]string{-budget.Dollar / 2: "-0.5", math.MinInt64: "-9223372.036854775808"} {
		if got := amount.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The most that a request can cost includes writing its prompt to the upstream's cache, for an hour
// only if it asks for that.
func TestMaxCost(t *testing.T) {
	p := budget.Prices{Input: 4, CachedInput: 1, CacheWrite: 5, CacheWrite1h: 8, Output: 20}
	for d, want := range map[budget.Demand]budget.PicoDollars{
		{Input: 100}:                            500,
		{Input: 100, ForHour: true}:             800,
		{Input: 100, Output: 10, ForHour: true}: 1000,
		{}:                                      0,
	} {
		if got, err := p.MaxCost(d); got != want || err != nil {
			t.Errorf("%+v: got %d, %v, want %d", d, got, err, want)
		}
	}
}

// A cost is exact, or an error. (U14)
func TestCost(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		of := func(name string) budget.PicoDollars {
			return budget.PicoDollars(rapid.Int64Range(0, int64(budget.MaxPrice)).Draw(r, name))
		}
		p := budget.Prices{Input: of("input price"), CachedInput: of("cached price"), CacheWrite: of("write price"), CacheWrite1h: of("hour price"), Output: of("output price")}
		var n [5]int64
		small := rapid.Bool().Draw(r, "small")
		for i := range n {
			if n[i] = rapid.Int64().Draw(r, "tokens"); small {
				n[i] %= 1e8
			}
		}
		if rapid.Bool().Draw(r, "possible") {
			for i := range n {
				n[i] = max(n[i], -n[i], 0) / 4
			}
			n[0], n[2] = min(n[0]+n[1]+n[2], math.MaxInt64-1), max(n[2], n[3])
			n[0] = max(n[0], n[1]+n[2])
		}
		in, cached, written, hour, out := n[0], n[1], n[2], n[3], n[4]
		got, err := p.Cost(budget.Tokens{Input: in, CachedInput: cached, CacheWrite: written, CacheWrite1h: hour, Output: out})
		total := new(big.Int).Add(big.NewInt(cached), big.NewInt(written))
		if min(in, cached, written, hour, out) < 0 || hour > written || total.Cmp(big.NewInt(in)) > 0 {
			if !errors.Is(err, budget.ErrPriceTokens) || got != 0 {
				r.Fatalf("got %d, %v", got, err)
			}
			return
		}
		want := new(big.Int)
		for tokens, each := range map[*int64]budget.PicoDollars{new(in - cached - written): p.Input, &cached: p.CachedInput, new(written - hour): p.CacheWrite, &hour: p.CacheWrite1h, &out: p.Output} {
			want.Add(want, new(big.Int).Mul(big.NewInt(*tokens), big.NewInt(int64(each))))
		}
		if !want.IsInt64() {
			if !errors.Is(err, budget.ErrPriceOverflow) || got != 0 {
				r.Fatalf("got %d, %v, want %s", got, err, want)
			}
			return
		}
		if err != nil || big.NewInt(int64(got)).Cmp(want) != 0 {
			r.Fatalf("got %d, %v, want %s", got, err, want)
		}
		if most, err := p.MaxCost(budget.Demand{Input: in, Output: out, ForHour: true}); err == nil && most < got {
			r.Fatalf("%d at most, but %d", most, got)
		}
	})
}

func TestTable(t *testing.T) {
	table := budget.PriceTable{
		{Match: "gpt-5-mini*", Prices: budget.Prices{Input: 1}}, {Match: "gpt-5*", Prices: budget.Prices{Input: 2}},
		{Match: "House", Prices: budget.Prices{Input: 3}},
	}
	for name, want := range map[string]budget.PicoDollars{"gpt-5-mini-2025": 1, "GPT-5-MINI": 1, "gpt-5": 2, "gpt-5-nano": 2, "house": 3} {
		if p, err := table.Of("openai/"+name, name); p.Input != want || err != nil {
			t.Errorf("%s: got %d, %v", name, p.Input, err)
		}
	}
	for _, name := range []string{"", "gpt-4o", "house-2", "hous", strings.Repeat("x", 1000)} {
		p, err := table.Of(name)
		if !errors.Is(err, budget.ErrNoPrice) || p.Prices != (budget.Prices{}) || len(fmt.Sprint(err)) > 200 {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
	if _, err := budget.PriceTable(nil).Of(); !errors.Is(err, budget.ErrNoPrice) {
		t.Error(err)
	}
}

// The tier that an answer reports counts. One that is only requested never makes it cheaper, and
// one without prices costs the standard prices.
func TestTiers(t *testing.T) {
	table := budget.PriceTable{{Match: "m", Prices: budget.Prices{Input: 10, Output: 1}, Tiers: map[string]budget.Prices{
		"priority": {Input: 20, Output: 1}, "flex": {Input: 5, Output: 1}, "vast": {Input: budget.MaxPrice},
	}}}
	tariff, ok := table.Find("m")
	if !ok {
		t.Fatal("no row matches")
	}
	n := budget.Tokens{Input: 3}
	for tier, want := range map[budget.Tier]struct {
		cost budget.PicoDollars
		by   string
	}{
		{}:                  {30, ""},
		{Requested: "auto"}: {30, ""},
		{Requested: "auto", Reported: "priority"}:      {60, "priority"},
		{Reported: "priority"}:                         {60, "priority"},
		{Requested: "priority", Reported: "default"}:   {30, ""},
		{Requested: "priority"}:                        {60, "priority"},
		{Requested: "priority", Reported: "auto"}:      {60, "priority"},
		{Requested: "flex"}:                            {30, ""},
		{Requested: "flex", Reported: "flex"}:          {15, "flex"},
		{Requested: "default", Reported: "flex"}:       {15, "flex"},
		{Requested: "Priority", Reported: "Priority"}:  {30, ""},
		{Requested: "scale", Reported: "on_demand"}:    {30, ""},
		{Requested: "standard_only", Reported: "auto"}: {30, ""},
	} {
		if cost, by, err := tariff.Cost(n, tier); cost != want.cost || by != want.by || err != nil {
			t.Errorf("%+v: got %d by %q, %v; want %d by %q", tier, cost, by, err, want.cost, want.by)
		}
	}
	for asked, want := range map[string]budget.PicoDollars{"": 3 * budget.MaxPrice, "auto": 3 * budget.MaxPrice, "priority": 61, "flex": 31, "default": 31} {
		if most, err := tariff.MaxCost(budget.Demand{Input: 3, Output: 1}, asked); most != want || err != nil {
			t.Errorf("%q: at most %d, %v; want %d", asked, most, err, want)
		}
	}
	if cost, by, err := tariff.Cost(budget.Tokens{Input: math.MaxInt64 / 2}, budget.Tier{Requested: "vast"}); !errors.Is(err, budget.ErrPriceOverflow) || cost != 0 {
		t.Errorf("got %d by %q, %v", cost, by, err)
	}
	if _, err := tariff.MaxCost(budget.Demand{Input: math.MaxInt64 / 2}, ""); !errors.Is(err, budget.ErrPriceOverflow) {
		t.Error(err)
	}
	if cost, _, err := tariff.Cost(budget.Tokens{Input: 1, CacheWrite: 2}, budget.Tier{Reported: "flex"}); !errors.Is(err, budget.ErrPriceTokens) || cost != 0 {
		t.Errorf("got %d, %v", cost, err)
	}
}

// Any parsed amount is printed as the same amount.
func FuzzParseUSD(f *testing.F) {
	for _, text := range []string{"1.25", "0", "-1", "9223372.036854775807", "1e9", "."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		amount, err := budget.ParseUSD(text)
		if err != nil {
			return
		}
		if again, err := budget.ParseUSD(amount.String()); again != amount || err != nil || amount < 0 {
			t.Errorf("%q is %d, shown as %s", text, amount, amount)
		}
	})
}
