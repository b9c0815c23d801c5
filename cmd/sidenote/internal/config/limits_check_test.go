package config_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sidenote/cmd/sidenote/internal/config"
)

// An amount of money survives a round trip, and one digit too many is refused.
func TestUSDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := config.USD(rapid.Int64Range(0, 1e18-1).Draw(t, "amount"))
		text, err := want.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got config.USD
		if err := got.UnmarshalText(text); err != nil || got != want {
			t.Fatalf("%d written as %s, read as %d, %v", want, text, got, err)
		}
	})
	for text, want := range map[string]config.USD{"1500": 1500_000_000_000, "0.50": 500_000_000, "0.000000001": 1} {
		var got config.USD
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "NaN", ".nan", "inf", "1e3", "1.", ".5", "1,5", "0x1", "1_000", "0.0000000001", "10000000000", "１"} {
		if err := new(config.USD).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// Of two sets of limits the lower value of each window applies, in either order.
func TestBoth(t *testing.T) {
	a := config.Limits{RequestsPerMinute: 5, TokensPerDay: 100, USDPerDay: 7}
	b := config.Limits{RequestsPerMinute: 9, TokensPerDay: 50, MaxParallel: 2}
	want := config.Limits{RequestsPerMinute: 5, TokensPerDay: 50, USDPerDay: 7, MaxParallel: 2}
	if x, y := config.BothLimits(a, b), config.BothLimits(b, a); x != want || y != want {
		t.Errorf("%+v, %+v", x, y)
	}
	all := reflect.ValueOf(config.Limits{})
	for i := range all.NumField() { // each field is copied, and reaches the ledger
		var one config.Limits
		reflect.ValueOf(&one).Elem().Field(i).SetInt(3)
		if got := config.BothLimits(one, config.Limits{}); got != one {
			t.Errorf("field %d: %+v", i, got)
		}
		sum := int64(0)
		for _, limit := range one.Budget() {
			sum += limit
		}
		if sum != 3 {
			t.Errorf("field %d is %d in the ledger", i, sum)
		}
	}
}

// Limits that cannot be enforced are refused.
func TestBudgetsThatCannotHold(t *testing.T) {
	some := []config.Limits{{TokensPerDay: 10, MaxParallel: 1}}
	for name, c := range map[string]struct {
		b       config.BudgetLimits
		redis   bool
		limited []config.Limits
		want    []string
	}{
		"fine":             {config.BudgetLimits{Replicas: 1}, false, some, nil},
		"replicas":         {config.BudgetLimits{Replicas: 3}, false, some, []string{"budgets.replicas: 3 replicas that each count for themselves would grant the limits 3 times; configure redis"}},
		"replicas, Redis":  {config.BudgetLimits{Replicas: 3}, true, some, nil},
		"replicas, own":    {config.BudgetLimits{Replicas: 3, Store: "process"}, true, some, []string{"budgets.replicas: 3 replicas that each count for themselves would grant the limits 3 times; configure redis"}},
		"replicas, free":   {config.BudgetLimits{Replicas: 3}, false, nil, nil},
		"no allowance":     {config.BudgetLimits{Replicas: 1, OnFailure: "allowance"}, true, nil, []string{"budgets.allowance: is missing; say what each replica may grant while Redis does not answer"}},
		"unused allowance": {config.BudgetLimits{Replicas: 1, OnFailure: "fail_closed", Allowance: config.Limits{MaxParallel: 1}}, true, nil, []string{"budgets.allowance: is not used unless on_failure is allowance"}},
		"gap": {config.BudgetLimits{Replicas: 1, OnFailure: "allowance", Allowance: config.Limits{MaxParallel: 1}}, true, append(some, some...), []string{
			"budgets.allowance.tokens_per_day: is missing, and some tenant has this limit, so nothing would be granted"}},
	} {
		var got []string
		c.b.Check(c.redis, c.limited, func(key, format string, args ...any) { got = append(got, key+": "+fmt.Sprintf(format, args...)) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
