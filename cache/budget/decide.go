package budget

import "time"

// perMinute is the number of milliseconds in a minute. The fill of a bucket is counted in units ×
// perMinute, so that a bucket drains by its limit each millisecond and no fraction of a unit is
// lost.
const perMinute = int64(time.Minute / time.Millisecond)

// busyWait is the Wait if only open reservations of other calls are in the way.
const busyWait = time.Second

// A State is what a ledger knows about a tenant at one time. All ledgers use LevelsOf and Refuse
// on it, so that they give the same answers.
type State struct {
	Now                   int64    // milliseconds since 1970, by the ledger's clock
	Fill                  [3]int64 // of the buckets per minute, in units × 60,000; 0 without a limit
	DaySpent, DayHeld     Amount   // on the day of Now
	MonthSpent, MonthHeld Amount   // in the month of Now
	Parallel              int64
}

// counts returns what is spent and held in the unit of w, a window per day or month.
func (s *State) counts(w Window) (spent, held int64) {
	if w == MoneyPerMonth {
		return s.MonthSpent.units()[w.unit()], s.MonthHeld.units()[w.unit()]
	}
	return s.DaySpent.units()[w.unit()], s.DayHeld.units()[w.unit()]
}

// end returns the time from Now to the end of w, a window per day or month.
func (s *State) end(w Window) time.Duration {
	_, end := dayOf(s.Now).span()
	if w == MoneyPerMonth {
		_, end = monthOf(s.Now).span()
	}
	return end.Sub(time.UnixMilli(s.Now))
}

// LevelsOf returns how full the windows of limits are.
func LevelsOf(limits Limits, s State) (levels Levels) {
	for w, limit := range limits {
		if limit == 0 {
			continue
		}
		level := Level{Limit: limit}
		switch w := Window(w); {
		case int(w) < minutes:
			level.Left = limit - up(s.Fill[w], perMinute)
			level.Reset = milliseconds(up(s.Fill[w], limit))
		case w == ParallelRequests:
			level.Left = limit - s.Parallel
		default:
			spent, held := s.counts(w)
			level.Left, level.Reset = limit-spent-held, s.end(w)
		}
		level.Left = max(level.Left, 0)
		levels[w] = level
	}
	return levels
}

// Refuse decides about r in state s, before r is held: it returns the refusal of the windows, or
// false if all of them have room; Levels are then not set.
func Refuse(r Reservation, s State) (d Decision, refused bool) {
	d = Decision{Ticket: r.Ticket()}
	estimate := r.Estimate.units()
	for w := range NumWindows {
		limit, takes := r.Limits[w], estimate[w.unit()]
		if limit == 0 || takes == 0 {
			continue
		}
		wait, never := s.wait(w, limit, takes)
		if wait == 0 && !never || refused && (d.Never || !never && wait <= d.Wait) {
			continue
		}
		d.Window, d.Wait, d.Never, refused = w, wait, never, true
	}
	if refused {
		d.Levels = LevelsOf(r.Limits, s)
	}
	return d, refused
}

// wait returns how long it takes until w has room for takes; 0 if it has room now. never is true
// if that exceeds the whole limit.
func (s *State) wait(w Window, limit, takes int64) (wait time.Duration, never bool) {
	if w == ParallelRequests {
		if s.Parallel < limit {
			return 0, false
		}
		return busyWait, false
	}
	if takes > limit {
		return 0, true
	}
	if int(w) < minutes {
		return milliseconds(up(s.Fill[w]-(limit-takes)*perMinute, limit)), false
	}
	switch spent, held := s.counts(w); {
	case spent <= limit-takes-held: // no sum here can exceed 2⁶³
		return 0, false
	case spent <= limit-takes:
		return busyWait, false
	}
	return s.end(w), false
}

// up returns n / by, rounded up; 0 if n is not positive.
func up(n, by int64) int64 {
	if n <= 0 {
		return 0
	}
	return (n + by - 1) / by
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// A day is a number of days since 1970, a month one of months; both in UTC.
type (
	day   int64
	month int64
)

const dayMillis = int64(24 * time.Hour / time.Millisecond)

func dayOf(now int64) day { return day(now / dayMillis) }

func monthOf(now int64) month {
	t := time.UnixMilli(now).UTC()
	return month((t.Year()-1970)*12 + int(t.Month()) - 1)
}

func (d day) span() (start, end time.Time) {
	start = time.UnixMilli(int64(d) * dayMillis).UTC()
	return start, start.Add(24 * time.Hour)
}

func (m month) span() (start, end time.Time) {
	first := func(m month) time.Time { return time.Date(1970, time.Month(1+m), 1, 0, 0, 0, 0, time.UTC) }
	return first(m), first(m + 1)
}

// Periods returns the day and the month of Now, without kinds.
func (s *State) Periods() (day, month Period) {
	day = Period{Spent: s.DaySpent, Held: s.DayHeld, Kinds: map[Kind]Amount{}}
	day.Start, day.End = dayOf(s.Now).span()
	month = Period{Spent: s.MonthSpent, Held: s.MonthHeld, Kinds: map[Kind]Amount{}}
	month.Start, month.End = monthOf(s.Now).span()
	return day, month
}
