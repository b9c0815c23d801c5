package inspector

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/tenant"
)

// ledgerWait is the timeout for asking the budget ledger.
const ledgerWait = 2 * time.Second

// A usageView is the usage of a tenant.
type usageView struct {
	Unknown bool // the ledger cannot be read
	Levels  []level
	Spent   []spent
}

// A level shows how much of a limit is used.
type level struct {
	Window            budget.Window
	Used, Limit, Left string  // with unit
	Width             float64 // in the drawing
	Full              bool
	Reset             string // time until all of it is left; "" if unknown
}

// A spent is the amount used in a period, in total or for one kind of call.
type spent struct {
	Period, Kind string
	budget.Amount
	USD string
}

// usageOf asks the ledger about a tenant; nil if there is no ledger.
func usageOf(d *Data, p *tenant.Policy) *usageView {
	if d.Usage == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), ledgerWait)
	defer cancel()
	used, err := d.Usage.Usage(ctx, p.Tenant, p.Budget.Limits)
	if err != nil {
		return &usageView{Unknown: true}
	}
	view := &usageView{}
	for n, l := range used.Levels {
		if w := budget.Window(n); l.Limit > 0 {
			view.Levels = append(view.Levels, levelOf(w, l))
		}
	}
	view.addPeriod("Today", &used.Day)
	view.addPeriod("This month", &used.Month)
	return view
}

func levelOf(w budget.Window, l budget.Level) level {
	write := func(n int64) string {
		if w.Money() {
			return dollars(n)
		}
		return count(n)
	}
	used := l.Limit - l.Left
	return level{
		Window: w, Used: write(used), Limit: write(l.Limit), Left: write(l.Left), Full: l.Left == 0, Reset: after(l.Reset),
		Width: barWidth * min(float64(used)/float64(l.Limit), 1),
	}
}

// after formats a duration in its two largest units, rounded up.
func after(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return ""
	case d < time.Minute:
		return fmt.Sprintf("%d s", (d+time.Second-1)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", (d+time.Minute-1)/time.Minute)
	}
	d += time.Minute - 1
	if d < 2*day {
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days %d h", d/day, d%day/time.Hour)
}

// dollars formats an exact amount of money for people.
func dollars(n int64) string {
	whole, part, _ := strings.Cut(budget.Dollars(n), ".")
	return strings.TrimSuffix("$"+count(whole)+"."+part, ".")
}

func (u *usageView) addPeriod(name string, p *budget.Period) {
	add := func(kind string, a budget.Amount) {
		u.Spent = append(u.Spent, spent{name, kind, a, dollars(a.Money)})
	}
	add("all calls", p.Spent)
	for _, kind := range budget.Kinds() {
		if a, ok := p.Kinds[kind]; ok {
			add(string(kind), a)
		}
	}
	if p.Held != (budget.Amount{}) {
		add("held by calls under way", p.Held)
	}
}
