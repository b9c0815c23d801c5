package budgettest

import (
	"maps"
	"slices"
	"time"

	"sidenote/cache/budget"
)

const minute = int64(60_000)

// A model is a ledger of one tenant that is slow and simple: it keeps all reservations
// for ever and adds them up when asked.
type model struct {
	at, run int64
	fill    [3]int64
	since   [3]int64
	all     map[string]*entry
}

// An entry is a reservation, or an ID that was settled without one.
type entry struct {
	budget.Reservation
	granted  int64 // time
	run      int64
	deadline int64
	open     bool
	expired  bool
	unknown  bool // never granted
	spent    budget.Amount
}

func newModel() *model { return &model{all: map[string]*entry{}} }

func of(a budget.Amount, w budget.Window) int64 {
	switch w {
	case budget.TokensPerMinute, budget.TokensPerDay:
		return a.Tokens
	case budget.InjectedPerMinute, budget.InjectedPerDay:
		return a.Injected
	case budget.MoneyPerDay, budget.MoneyPerMonth:
		return a.Money
	}
	return a.Requests
}

func sum(a, b budget.Amount) budget.Amount {
	return budget.Amount{
		Requests: a.Requests + b.Requests, Tokens: a.Tokens + b.Tokens,
		Injected: a.Injected + b.Injected, Money: a.Money + b.Money,
	}
}

func utc(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// period adds up what belongs to a day ("2006-01-02") or month ("2006-01").
func (m *model) period(layout string) (p budget.Period) {
	p.Kinds = map[budget.Kind]budget.Amount{}
	for _, e := range m.all {
		if e.unknown || utc(e.granted).Format(layout) != utc(m.at).Format(layout) {
			continue
		}
		if e.open {
			p.Held = sum(p.Held, e.Estimate)
			continue
		}
		p.Spent = sum(p.Spent, e.spent)
		if e.spent != (budget.Amount{}) {
			p.Kinds[e.Kind] = sum(p.Kinds[e.Kind], e.spent)
		}
	}
	now := utc(m.at)
	p.Start = time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	p.End = p.Start.AddDate(0, 0, 1)
	if layout == byMonth {
		p.Start = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
		p.End = p.Start.AddDate(0, 1, 0)
	}
	return p
}

const (
	byDay   = "2006-01-02"
	byMonth = "2006-01"
)

func (m *model) parallel() (n int64) {
	for _, e := range m.all {
		if e.open && e.Estimate.Requests > 0 {
			n++
		}
	}
	return n
}

// pass lets time pass to now, and charges what has expired.
func (m *model) pass(now int64) (expired int, back bool) {
	if back = m.at != 0 && now < m.at; back {
		for _, e := range m.all {
			e.deadline -= m.at - now
		}
	} else if m.at != 0 {
		m.run += now - m.at
	}
	m.at = now
	for _, e := range m.all {
		if e.open && e.deadline <= now {
			m.settle(e, e.Estimate)
			e.expired = true
			expired++
		}
	}
	return expired, back
}

func (m *model) drained(w int, limit int64) int64 {
	return max(0, min(m.fill[w], 2*limit*minute)-limit*min(m.run-m.since[w], 2*minute))
}

func (m *model) settle(e *entry, actual budget.Amount) {
	e.open, e.spent = false, actual
	for w := range 3 {
		limit := e.Limits[w]
		if limit == 0 {
			continue
		}
		diff := (of(actual, budget.Window(w)) - of(e.Estimate, budget.Window(w)))
		if diff >= 0 {
			m.fill[w] = max(m.fill[w], min(m.fill[w]+min(diff, 2*limit)*minute, 2*limit*minute))
			continue
		}
		back := -diff*minute - limit*min(m.since[w]-e.run, minute)
		m.fill[w] -= min(m.fill[w], max(0, back))
	}
}

// levels are the levels under limits now.
func (m *model) levels(limits budget.Limits) (levels budget.Levels) {
	day, month := m.period(byDay), m.period(byMonth)
	for w := range budget.NumWindows {
		limit := limits[w]
		if limit == 0 {
			continue
		}
		l := budget.Level{Limit: limit}
		switch w {
		case budget.RequestsPerMinute, budget.TokensPerMinute, budget.InjectedPerMinute:
			fill := m.drained(int(w), limit)
			l.Left = limit - (fill+minute-1)/minute
			l.Reset = time.Duration((fill+limit-1)/limit) * time.Millisecond
		case budget.ParallelRequests:
			l.Left = limit - m.parallel()
		case budget.MoneyPerMonth:
			l.Left, l.Reset = limit-month.Spent.Money-month.Held.Money, month.End.Sub(utc(m.at))
		default:
			l.Left, l.Reset = limit-of(day.Spent, w)-of(day.Held, w), day.End.Sub(utc(m.at))
		}
		l.Left = max(0, l.Left)
		levels[w] = l
	}
	return levels
}

// refuses tells whether a window has no room for r.
func (m *model) refuses(r budget.Reservation, w budget.Window) bool {
	limit, takes := r.Limits[w], of(r.Estimate, w)
	if limit == 0 || takes == 0 {
		return false
	}
	switch w {
	case budget.RequestsPerMinute, budget.TokensPerMinute, budget.InjectedPerMinute:
		return m.drained(int(w), limit)+takes*minute > limit*minute
	case budget.ParallelRequests:
		return m.parallel() >= limit
	case budget.MoneyPerMonth:
		month := m.period(byMonth)
		return month.Spent.Money+month.Held.Money+takes > limit
	}
	day := m.period(byDay)
	return of(day.Spent, w)+of(day.Held, w)+takes > limit
}

// reserve returns the windows that refuse; closed if the ID was settled before.
func (m *model) reserve(now int64, r budget.Reservation) (refused []budget.Window, expired int, closed bool, levels budget.Levels) {
	before := *m
	expired, back := m.pass(now)
	if e := m.all[r.ID]; e != nil {
		levels = m.levels(r.Limits)
		if expired == 0 && !back {
			m.at, m.run = before.at, before.run
		}
		return nil, expired, !e.open, levels
	}
	for w := range budget.NumWindows {
		if m.refuses(r, w) {
			refused = append(refused, w)
		}
	}
	if refused != nil {
		levels = m.levels(r.Limits)
		if expired == 0 && !back {
			m.at, m.run = before.at, before.run
		}
		return refused, expired, false, levels
	}
	for w := range 3 {
		if limit := r.Limits[w]; limit > 0 {
			m.fill[w] = m.drained(w, limit) + of(r.Estimate, budget.Window(w))*minute
			m.since[w] = m.run
		}
	}
	m.all[r.ID] = &entry{Reservation: r, granted: now, run: m.run, deadline: now + r.Lease.Milliseconds(), open: true}
	return nil, expired, false, m.levels(r.Limits)
}

func (m *model) settleID(id string, actual budget.Amount) budget.Outcome {
	e := m.all[id]
	switch {
	case e == nil:
		m.all[id] = &entry{unknown: true}
		return budget.Unknown
	case e.open:
		m.settle(e, actual)
		return budget.Settled
	case e.expired:
		return budget.Expired
	}
	return budget.Repeated
}

func (m *model) renew(now int64, id string, lease time.Duration) bool {
	e := m.all[id]
	if e == nil || !e.open {
		return false
	}
	if m.at != 0 && now < m.at {
		for _, e := range m.all {
			e.deadline -= m.at - now
		}
	} else {
		m.run += now - m.at
	}
	m.at = now
	e.deadline = max(e.deadline, now+lease.Milliseconds())
	return true
}

// usage is what Usage must say.
func (m *model) usage(now int64, limits budget.Limits) budget.Usage {
	at, run := m.at, m.run
	expired, back := m.pass(now)
	u := budget.Usage{
		Levels: m.levels(limits), Day: m.period(byDay), Month: m.period(byMonth), Parallel: m.parallel(), Expired: expired,
	}
	if expired == 0 && !back {
		m.at, m.run = at, run
	}
	return u
}

// restart charges what is open, as a ledger in a file does.
func (m *model) restart() {
	for _, id := range slices.Sorted(maps.Keys(m.all)) {
		if e := m.all[id]; e.open {
			m.settle(e, e.Estimate)
			e.expired = true
		}
	}
}
