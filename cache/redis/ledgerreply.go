package redis

import (
	"fmt"
	"strconv"
	"sync"

	"sidenote/cache/budget"
)

// A ledgerReply is the reply of the scripts for Reserve and Usage.
type ledgerReply struct {
	code    string
	expired int
	lost    bool
	budget.State
	seen seen // from scripts that reserve
	// kinds is the amount spent by kind: four units for each kind, first of the day, then of the
	// month.
	kinds []int64
}

// numbers is the count of numbers in a state, units that in an amount.
const (
	numbers = 21
	units   = 4
)

// codeLost is the code for a record that has lost counts and is not corrected.
const codeLost = "lost"

// wrongReply returns the error for a reply that none of our scripts gives.
func wrongReply() error {
	return fmt.Errorf("redis %s: %s: unexpected reply of a ledger script", opScript, Protocol)
}

func readReply(raw any) (ledgerReply, error) {
	parts, ok := raw.([]any)
	if !ok || len(parts) != 5 {
		return ledgerReply{}, wrongReply()
	}
	code, ok1 := parts[0].(string)
	expired, ok2 := parts[1].(int64)
	lost, ok3 := parts[2].(int64)
	state, ok4 := parts[3].([]any)
	if !ok1 || !ok2 || !ok3 || !ok4 || len(state) != numbers {
		return ledgerReply{}, wrongReply()
	}
	n, ok1 := ints(state)
	r := ledgerReply{code: code, expired: int(expired), lost: lost == 1}
	if code == "" { // reply of usage
		kinds, _ := parts[4].([]any)
		if r.kinds, ok2 = ints(kinds); len(r.kinds) != 2*units*len(budget.Kinds()) {
			return ledgerReply{}, wrongReply()
		}
	} else {
		r.seen, ok2 = readSeen(parts[4])
	}
	if !ok1 || !ok2 {
		return ledgerReply{}, wrongReply()
	}
	r.State = budget.State{
		Now: n[0], Fill: [3]int64(n[1:4]),
		DaySpent: amount(n[4:]), DayHeld: amount(n[8:]), MonthSpent: amount(n[12:]), MonthHeld: amount(n[16:]),
		Parallel: n[20],
	}
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

// decide returns the Decision that the script made.
func (r ledgerReply) decide(asked budget.Reservation) (budget.Decision, error) {
	d := budget.Decision{Ticket: asked.Ticket()}
	switch r.code {
	case "granted":
		d.Granted, d.Levels = true, budget.LevelsOf(asked.Limits, r.State)
		d.Ticket.Mark = r.seen.seq
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

// A seen is what a script reports about a record, for this process to remember.
type seen struct {
	name string // "" if there is no record
	seq  int64
	rest []int64 // in the order of restore.lua
}

// seenNumbers is the count of its numbers, including the sequence number.
const seenNumbers = 19

func readSeen(part any) (seen, bool) {
	list, _ := part.([]any)
	if len(list) != seenNumbers+1 {
		return seen{}, false
	}
	n, ok1 := ints(list[:seenNumbers])
	name, ok2 := list[seenNumbers].(string)
	if !ok1 || !ok2 {
		return seen{}, false
	}
	return seen{name, n[0], n[1:]}, true
}

// readSettled parses the reply of the script that settles n calls.
func readSettled(parts []any, n int) ([]budget.Outcome, seen, error) {
	if len(parts) != 2 {
		return nil, seen{}, wrongReply()
	}
	codes, _ := parts[0].([]any)
	s, ok := readSeen(parts[1])
	if len(codes) != n || !ok {
		return nil, seen{}, wrongReply()
	}
	outcomes := make([]budget.Outcome, n)
	for i, code := range codes {
		text, ok := code.(string)
		if !ok {
			return nil, seen{}, wrongReply()
		}
		outcomes[i] = budget.Outcome(text)
	}
	return outcomes, s, nil
}

// A sighting is the last known state of a tenant's record, as an argument for the scripts, so that
// a Redis that lost counts is detected and corrected.
type sighting struct {
	name   string
	seq    int64
	rest   string
	limits [3]int64 // limits of the buckets
}

// sightings holds the sightings of all tenants. It is safe for concurrent use.
type sightings struct {
	mu  sync.Mutex
	all map[string]sighting // by tenant
}

func (s *sightings) of(tenant string) sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[tenant]
}

// keep remembers the state of a record and the limits of the buckets, unless a later state of the
// same record is known.
func (s *sightings) keep(tenant string, now seen, limits [3]int64) {
	if now.name == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(tenant, now, limits)
}

// settled remembers the state of a record after a settlement. replaced reports whether the record
// may be another one than the known one.
func (s *sightings) settled(tenant string, now seen, replaced bool) {
	if now.name == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.all[tenant]
	if known && last.name != now.name && !replaced {
		return
	}
	s.put(tenant, now, last.limits)
}

func (s *sightings) put(tenant string, now seen, limits [3]int64) {
	if last := s.all[tenant]; last.name == now.name && last.seq > now.seq {
		return
	}
	b := make([]byte, 0, 192)
	for _, n := range now.rest {
		b = append(strconv.AppendInt(b, n, 10), ',')
	}
	for _, limit := range limits {
		b = append(strconv.AppendInt(b, limit, 10), ',')
	}
	s.all[tenant] = sighting{now.name, now.seq, string(b), limits}
}
