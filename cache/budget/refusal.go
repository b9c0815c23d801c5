package budget

import (
	"fmt"
	"strconv"
	"time"
)

// A Refusal is the error for a call that exceeds a limit.
type Refusal struct {
	Window Window
	Wait   time.Duration // until it may succeed; see Decision
	Never  bool          // it exceeds the whole limit
	Levels Levels
}

// Error tells the caller which limit is reached, and what helps.
func (r *Refusal) Error() string {
	limit := amount(r.Window, r.Levels[r.Window].Limit)
	switch {
	case r.Never:
		return fmt.Sprintf("This request alone may take more than your limit %s, %s; make it shorter, or set a lower limit for its answer.", r.Window, limit)
	case r.Window == ParallelRequests:
		return fmt.Sprintf("You have as many requests at once as your limit %s allows, %s; try again when one has ended.", r.Window, limit)
	case r.RetryFails():
		return fmt.Sprintf("Your limit %s, %s, is reached; it is free again at %s UTC.", r.Window, limit,
			time.Now().Add(r.Wait).UTC().Truncate(time.Second).Format(time.DateTime))
	}
	return fmt.Sprintf("Your limit %s, %s, is reached; try again in %s.", r.Window, limit, r.Wait.Round(time.Millisecond))
}

// FormatLimit formats a window and its limit for people: "usd_per_month $1500".
func FormatLimit(w Window, limit int64) string { return w.String() + " " + amount(w, limit) }

func amount(w Window, n int64) string {
	if w == MoneyPerDay || w == MoneyPerMonth {
		return "$" + strconv.FormatFloat(float64(n)/USD, 'f', -1, 64)
	}
	return strconv.FormatInt(n, 10)
}

// maxWait is the longest time that clients wait by themselves: OpenAI's SDKs ignore a longer
// Retry-After.
const maxWait = time.Minute

// RetryFails reports whether an automatic retry by the client cannot succeed.
func (r *Refusal) RetryFails() bool { return r.Never || r.Wait > maxWait }

// Quota reports whether the limit is per day or month.
func (r *Refusal) Quota() bool {
	switch r.Window {
	case TokensPerDay, InjectedPerDay, MoneyPerDay, MoneyPerMonth:
		return true
	}
	return false
}

// Kind returns OpenAI's error.type and error.code for such a refusal.
func (r *Refusal) Kind() (kind, code string) {
	switch r.Window {
	case RequestsPerMinute, ParallelRequests:
		return "requests", "rate_limit_exceeded"
	case TokensPerMinute, InjectedPerMinute:
		return "tokens", "rate_limit_exceeded"
	}
	return "insufficient_quota", "insufficient_quota"
}

// Headers calls set with the headers that tell OpenAI's SDKs how long to wait: Retry-After,
// x-should-retry, and x-ratelimit-* for the windows per minute.
func (r *Refusal) Headers(set func(name, value string)) {
	up := func(d, unit time.Duration) string { return strconv.FormatInt(int64((d+unit-1)/unit), 10) }
	if r.RetryFails() {
		set("X-Should-Retry", "false")
	} else {
		set("Retry-After-Ms", up(r.Wait, time.Millisecond))
	}
	if !r.Never {
		set("Retry-After", up(r.Wait, time.Second))
	}
	for name, w := range map[string]Window{"Requests": RequestsPerMinute, "Tokens": TokensPerMinute} {
		if l := r.Levels[w]; l.Limit > 0 {
			set("X-Ratelimit-Limit-"+name, strconv.FormatInt(l.Limit, 10))
			set("X-Ratelimit-Remaining-"+name, strconv.FormatInt(l.Left, 10))
			set("X-Ratelimit-Reset-"+name, l.Reset.Round(time.Millisecond).String())
		}
	}
}
