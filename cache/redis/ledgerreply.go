package redis

import (
	"fmt"
	"strconv"
	"sync"

	"sidenote/cache/budget"
)

// A ledgerReply is what the scripts that reserve and tell usage return.
type ledgerReply struct {
	code    string
	expired int
	lost    bool
	budget.State
	seq  int64
	born string
	// kinds is spent by kind: of each kind of the day its four units, then of the month.
	kinds []int64
}

// numbers is how many numbers a state has, and units how many an amount.
const (
	numbers = 22
	units   = 4
)

// codeLost is the code of a record that was lost, and is not corrected.
const codeLost = "lost"

// wrongReply is about a reply that no script of ours gives.
func wrongReply() error {
	return fmt.Errorf("redis %s: %s: a reply that no script of ours gives", opScript, Protocol)
}

func readReply(raw any) (ledgerReply, error) {
	parts, ok := raw.([]any)
	if !ok || len(parts) < 4 {
		return ledgerReply{}, wrongReply()
	}
	code, ok1 := parts[0].(string)
	expired, ok2 := parts[1].(int64)
	lost, ok3 := parts[2].(int64)
	state, ok4 := parts[3].([]any)
	if !ok1 || !ok2 || !ok3 || !ok4 || len(state) != numbers+1 {
		return ledgerReply{}, wrongReply()
	}
	n, ok1 := ints(state[:numbers])
	born, ok2 := state[numbers].(string)
	r := ledgerReply{code: code, expired: int(expired), lost: lost == 1, seq: 0, born: born}
	if len(parts) > 4 {
		kinds, _ := parts[4].([]any)
		if r.kinds, ok3 = ints(kinds); len(r.kinds) != 2*units*len(budget.Kinds()) {
			return ledgerReply{}, wrongReply()
		}
	}
	if !ok1 || !ok2 || !ok3 {
		return ledgerReply{}, wrongReply()
	}
	r.State = budget.State{
		Now: n[0], Fill: [3]int64(n[1:4]),
		DaySpent: amount(n[4:]), DayHeld: amount(n[8:]), MonthSpent: amount(n[12:]), MonthHeld: amount(n[16:]),
		Parallel: n[20],
	}
	r.seq = n[21]
	return r, nil
}

func ints(values []any) (all []int64, ok bool) {
	for _, v := range values {
		n, ok := v.(int64)
		if !ok {
			return nil, false
		}
		all = append(all, n)
	}
	return all, true
}

func amount(n []int64) budget.Amount {
	return budget.Amount{Requests: n[0], Tokens: n[1], Injected: n[2], Money: n[3]}
}

// decide makes the decision that the script took.
func (r ledgerReply) decide(asked budget.Reservation) (budget.Decision, error) {
	d := budget.Decision{Ticket: asked.Ticket()}
	switch r.code {
	case "granted":
		d.Granted, d.Levels = true, budget.LevelsOf(asked.Limits, r.State)
	case "refused":
		var refused bool
		if d, refused = budget.Refuse(asked, r.State); !refused {
			return budget.Decision{}, fmt.Errorf("%w: refused with room in all windows", budget.ErrCorrupt)
		}
	case codeLost:
		return budget.Decision{RolledBack: true}, budget.ErrLost
	case "closed":
		return budget.Decision{}, budget.ErrClosed
	default:
		return budget.Decision{}, fmt.Errorf("%w: more is held than can be counted", budget.ErrInvalid)
	}
	d.Expired, d.RolledBack = r.expired, r.lost
	return d, nil
}

func (r ledgerReply) usage(limits budget.Limits) (budget.Usage, error) {
	u := budget.Usage{Levels: budget.LevelsOf(limits, r.State), Parallel: r.Parallel}
	u.Day, u.Month = r.State.Periods()
	for i, kind := range budget.Kinds() {
		if a := amount(r.kinds[i*units:]); a != (budget.Amount{}) {
			u.Day.Kinds[kind] = a
		}
		if a := amount(r.kinds[(len(budget.Kinds())+i)*units:]); a != (budget.Amount{}) {
			u.Month.Kinds[kind] = a
		}
	}
	return u, nil
}

// A sighting is what this process last saw of a tenant's record, as reserve.lua takes it,
// so that a Redis that lost some of it is noticed and made to count it again.
type sighting struct {
	born string
	seq  int64
	text string
}

// sightings are those of all tenants. Calls may be made concurrently.
type sightings struct {
	mu  sync.Mutex
	all map[string]sighting // by tenant
}

func (s *sightings) of(tenant string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[tenant].text
}

// keep remembers a reply, unless a later one of the same record is known.
func (s *sightings) keep(tenant string, r ledgerReply) {
	if r.born == "" {
		return // there is no record
	}
	b := append(make([]byte, 0, 192), r.born...)
	list := func(all ...int64) {
		for _, n := range all {
			b = strconv.AppendInt(append(b, ','), n, 10)
		}
	}
	list(r.seq, r.Now)
	list(r.Fill[:]...)
	for _, a := range [2][2]budget.Amount{{r.DaySpent, r.DayHeld}, {r.MonthSpent, r.MonthHeld}} {
		spent, held := a[0], a[1]
		list(spent.Requests+held.Requests, spent.Tokens+held.Tokens, spent.Injected+held.Injected, spent.Money+held.Money)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.all[tenant]; last.born == r.born && last.seq > r.seq {
		return
	}
	s.all[tenant] = sighting{r.born, r.seq, string(b)}
}
