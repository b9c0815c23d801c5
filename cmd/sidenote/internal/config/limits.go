package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sidenote/cache/budget"
)

// Limits are the maximum usage of a tenant, by window. An absent key means no limit.
type Limits struct {
	RequestsPerMinute Count `yaml:"requests_per_minute,omitempty" min:"1" max:"10M"`
	TokensPerMinute   Count `yaml:"tokens_per_minute,omitempty" min:"1" max:"10000M"`
	InjectedPerMinute Count `yaml:"injected_tokens_per_minute,omitempty" min:"1" max:"10000M"`
	TokensPerDay      Count `yaml:"tokens_per_day,omitempty" min:"1" max:"1000000M"`
	InjectedPerDay    Count `yaml:"injected_tokens_per_day,omitempty" min:"1" max:"1000000M"`
	USDPerDay         USD   `yaml:"usd_per_day,omitempty" min:"0.01" max:"1000000"`
	USDPerMonth       USD   `yaml:"usd_per_month,omitempty" min:"0.01" max:"1000000"`
	MaxParallel       Count `yaml:"max_parallel_requests,omitempty" min:"1" max:"1M"`
}

// Budget converts the limits for package budget.
func (l Limits) Budget() budget.Limits {
	return budget.Limits{
		budget.RequestsPerMinute: int64(l.RequestsPerMinute),
		budget.TokensPerMinute:   int64(l.TokensPerMinute),
		budget.InjectedPerMinute: int64(l.InjectedPerMinute),
		budget.TokensPerDay:      int64(l.TokensPerDay),
		budget.InjectedPerDay:    int64(l.InjectedPerDay),
		budget.MoneyPerDay:       int64(l.USDPerDay),
		budget.MoneyPerMonth:     int64(l.USDPerMonth),
		budget.ParallelRequests:  int64(l.MaxParallel),
	}
}

// BothLimits returns the lower of two limits for each window.
func BothLimits(a, b Limits) Limits {
	return Limits{
		RequestsPerMinute: lower(a.RequestsPerMinute, b.RequestsPerMinute),
		TokensPerMinute:   lower(a.TokensPerMinute, b.TokensPerMinute),
		InjectedPerMinute: lower(a.InjectedPerMinute, b.InjectedPerMinute),
		TokensPerDay:      lower(a.TokensPerDay, b.TokensPerDay),
		InjectedPerDay:    lower(a.InjectedPerDay, b.InjectedPerDay),
		USDPerDay:         lower(a.USDPerDay, b.USDPerDay),
		USDPerMonth:       lower(a.USDPerMonth, b.USDPerMonth),
		MaxParallel:       lower(a.MaxParallel, b.MaxParallel),
	}
}

// lower returns the lower of two limits; 0 means no limit.
func lower[N ~int64](a, b N) N {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// USD is an amount of money in units of 1/budget.USD US dollars, written as 1500 or 0.50.
type USD int64

// UnmarshalText parses a decimal number exactly; it may not have more digits than the unit.
func (u *USD) UnmarshalText(text []byte) error {
	n, err := decimal(string(text))
	if err != nil {
		return fmt.Errorf("%q is not an amount of money; write US dollars, as in 1500 or 0.50", text)
	}
	*u = USD(n)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (u USD) MarshalText() ([]byte, error) {
	whole, rest := int64(u)/budget.USD, int64(u)%budget.USD
	text := strconv.FormatInt(whole, 10)
	if rest > 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%09d", rest), "0")
	}
	return []byte(text), nil
}

var errDecimal = errors.New("not a decimal number")

// decimal returns s × budget.USD, exactly.
func decimal(s string) (int64, error) {
	whole, fraction, point := strings.Cut(s, ".")
	digits := len(strconv.Itoa(budget.USD)) - 1
	if len(whole) == 0 || len(whole) > 9 || point && fraction == "" || len(fraction) > digits {
		return 0, errDecimal
	}
	all := whole + fraction + strings.Repeat("0", digits-len(fraction))
	if strings.ContainsFunc(all, func(r rune) bool { return r < '0' || r > '9' }) {
		return 0, errDecimal
	}
	return strconv.ParseInt(all, 10, 64)
}

// Spending holds the budget settings of a policy.
type Spending struct {
	Limits Limits `yaml:"limits,omitempty"`
	// Ladder lists what is tried before a request is refused.
	Ladder       []string `yaml:"ladder,omitempty,flow" of:"no_stages|fewer_sources|shorter_sources|no_planner|no_sources|refuse"`
	MaxOutput    Count    `yaml:"max_output_tokens,omitempty" min:"1" max:"10M"` // of one answer; absent: what the model can write
	DefaultPrice prices   `yaml:"default_price,omitempty"`                       // of models without a row in prices
}

// defaultLadder returns the ladder of a policy that sets none.
func defaultLadder() []string {
	ladder := make([]string, 0, len(budget.Rungs())+1)
	for _, rung := range budget.Rungs() {
		ladder = append(ladder, string(rung))
	}
	return append(ladder, string(budget.RefuseRung))
}

// grounded returns a ladder without the rung that drops sources, for answers that must rest on
// them.
func grounded(ladder []string) []string {
	return slices.DeleteFunc(slices.Clone(ladder), func(r string) bool { return r == string(budget.NoSources) })
}

// Counted reports whether tokens or money are limited.
func (l Limits) Counted() bool { return (&budget.Terms{Limits: l.Budget()}).Tokens() }

// Terms returns the limits, prices and ladder for requests of a tenant.
func (s Spending) Terms(b BudgetLimits, table budget.PriceTable) budget.Terms {
	t := budget.Terms{Limits: s.Limits.Budget(), Prices: table}
	if t.Limited() && b.OnFailure == "allowance" {
		t.Allowance = b.Allowance.Budget()
	}
	for _, rung := range s.Ladder {
		if t.Limited() && budget.Rung(rung) != budget.RefuseRung {
			t.Ladder = append(t.Ladder, budget.Rung(rung))
		}
	}
	if s.DefaultPrice != (prices{}) {
		p := s.DefaultPrice.parsed()
		t.Unpriced = &p
	}
	return t
}

// Check reports a ladder that makes no sense. grounded says whether answers must rest on sources.
func (s Spending) Check(key string, grounded bool, report reportLimits) {
	for i, r := range s.Ladder {
		if grounded && r == string(budget.NoSources) {
			report(key+".ladder["+strconv.Itoa(i)+"]", "no_sources would answer without the sources that grounding: strict rests on; leave it out")
		}
		if r == string(budget.RefuseRung) && i < len(s.Ladder)-1 {
			report(key+".ladder["+strconv.Itoa(i)+"]", "refuse ends the ladder, so nothing may follow it")
		}
	}
	if n := len(s.Ladder); n > 0 && s.Ladder[n-1] != string(budget.RefuseRung) {
		report(key+".ladder", "must end with refuse, as limits hold")
	}
}

// A reportLimits reports a problem at a key.
type reportLimits = func(key, format string, args ...any)

// BudgetLimits says where usage is counted, and what applies if the count is unavailable.
type BudgetLimits struct {
	Store     string `yaml:"store" of:"auto|process"`               // auto: Redis if configured, else this process
	OnFailure string `yaml:"on_failure" of:"fail_closed|allowance"` // if the ledger is unreachable or cannot write
	Allowance Limits `yaml:"allowance,omitempty"`                   // for each tenant on each replica, meanwhile
	Replicas  Count  `yaml:"replicas" min:"1" max:"10k"`            // number of serving processes; without Redis each counts for itself
	// OnRollback says what happens if Redis lost counts.
	OnRollback string `yaml:"on_rollback" of:"correct|refuse"`
}

// Check reports limits that could not be enforced; redis says whether one is configured.
func (b BudgetLimits) Check(redis bool, limited []Limits, report reportLimits) {
	switch {
	case b.OnFailure == "allowance" && b.Allowance == (Limits{}):
		report("budgets.allowance", "is missing; say what each replica may grant while Redis does not answer")
	case b.OnFailure != "allowance" && b.Allowance != (Limits{}):
		report("budgets.allowance", "is not used unless on_failure is allowance")
	case b.Replicas > 1 && (!redis || b.Store == "process") && len(limited) > 0:
		report("budgets.replicas", "%d replicas that each count for themselves would grant the limits %d times; configure redis", b.Replicas, b.Replicas)
	}
	if b.OnFailure != "allowance" {
		return
	}
	of, reported := b.Allowance.Budget(), map[budget.Window]bool{}
	for _, l := range limited {
		for w, limit := range l.Budget() {
			if window := budget.Window(w); limit > 0 && of[w] == 0 && !reported[window] {
				reported[window] = true
				report("budgets.allowance."+window.String(), "is missing, and some tenant has this limit, so nothing would be granted")
			}
		}
	}
}

// A price is the price of a million tokens in US dollars, as written: 1.25.
type price string

// UnmarshalText refuses invalid prices.
func (p *price) UnmarshalText(text []byte) error {
	if _, err := budget.ParsePrice(string(text)); err != nil {
		return err
	}
	*p = price(text)
	return nil
}

// prices are the prices of a model.
type prices struct {
	Input        price `yaml:"input" need:"true"`
	CachedInput  price `yaml:"cached_input,omitempty"`   // absent: the price of input
	CacheWrite   price `yaml:"cache_write,omitempty"`    // absent: 1.25 × input
	CacheWrite1h price `yaml:"cache_write_1h,omitempty"` // absent: 2 × input
	Output       price `yaml:"output" need:"true"`
}

func (p prices) parsed() budget.Prices {
	out, err := budget.PriceText{
		Input: string(p.Input), CachedInput: string(p.CachedInput), CacheWrite: string(p.CacheWrite), CacheWrite1h: string(p.CacheWrite1h),
		Output: string(p.Output),
	}.Parse()
	if err != nil {
		panic("BUG: a price was not checked: " + err.Error())
	}
	return out
}

// A priceRow holds the prices of the models that Match matches.
type priceRow struct {
	Match  modelPattern `yaml:"match" need:"true"`
	prices `yaml:",inline"`
	Tiers  map[tier]prices `yaml:"tiers,omitempty"` // by the service_tier of answers; absent: the prices above
}

// A tier is a service_tier as answers report it: priority, flex.
type tier string

// UnmarshalText refuses tiers that no answer reports.
func (t *tier) UnmarshalText(text []byte) error {
	switch {
	case len(text) == 0 || len(text) > 64:
		return fmt.Errorf("%q is not a service tier; write its name as answers have it, such as priority", text)
	case string(text) == "auto":
		return errors.New("auto leaves the tier to the upstream; write the tier that answers tell, such as priority")
	}
	*t = tier(text)
	return nil
}

// PriceTable converts prices for package budget.
func PriceTable(rows []priceRow) (t budget.PriceTable) {
	for _, r := range rows {
		row := budget.PriceRow{Match: string(r.Match), Prices: r.parsed()}
		for tier, p := range r.Tiers {
			if row.Tiers == nil {
				row.Tiers = make(map[string]budget.Prices, len(r.Tiers))
			}
			row.Tiers[string(tier)] = p.parsed()
		}
		t = append(t, row)
	}
	return t
}
