// Package usage counts what tenants used in each month, by kind of call, model and key, for bills.
// It only counts: limits are the business of package budget. A Counter sums up calls in memory and
// writes the sums to a Store in the background, so that no request waits for it.
package usage

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"sidenote/cache/budget"
)

// KeptMonths is how many months before the current one are kept.
const KeptMonths = 24

// MaxRows is how many rows of a tenant and month are distinguished. Further ones count in the row
// of their kind with model and key Other.
const MaxRows = 1000

// Other is the model and the key of rows that are not distinguished.
const Other = "other"

// A Month is a month of UTC, as "2026-10".
type Month string

const monthLayout = "2006-01"

// MonthOf returns the month of a time.
func MonthOf(t time.Time) Month { return Month(t.UTC().Format(monthLayout)) }

// ParseMonth returns the month that text names. The error says what is wrong with the text: it is
// no month, has not begun, or is not kept any more.
func ParseMonth(text string, now time.Time) (Month, error) {
	start, err := time.Parse(monthLayout, text)
	switch {
	case err != nil:
		return "", fmt.Errorf("%q is no month; write one as 2026-10", text)
	case Month(text) > MonthOf(now):
		return "", fmt.Errorf("%s has not begun; the current month is %s (UTC)", text, MonthOf(now))
	case start.Before(oldest(now)):
		return "", fmt.Errorf("%s is not kept; the oldest month is %s", text, MonthOf(oldest(now)))
	}
	return Month(text), nil
}

// oldest returns the start of the oldest month that is kept.
func oldest(now time.Time) time.Time {
	now = now.UTC()
	return time.Date(now.Year(), now.Month()-KeptMonths, 1, 0, 0, 0, 0, time.UTC)
}

// Expiry returns the time from which the month is not kept any more.
func (m Month) Expiry() time.Time {
	start, err := time.Parse(monthLayout, string(m))
	if err != nil {
		panic(fmt.Sprintf("BUG: month %q", m))
	}
	return start.AddDate(0, KeptMonths+1, 0)
}

// mostJump is the number of months after the newest one that is kept, from which the clock may be wrong.
const mostJump = 3

// expired returns the months that are not kept in the month now. If now is long after the newest month
// before it there are none, because a clock that is wrong for a moment must not remove a bill.
func expired(months []Month, now Month) (old []Month) {
	newest := Month("")
	for _, m := range months {
		if m < now {
			newest = max(newest, m)
		}
		if MonthOf(m.Expiry()) <= now {
			old = append(old, m)
		}
	}
	if start, err := time.Parse(monthLayout, string(newest)); err == nil && MonthOf(start.AddDate(0, mostJump, 0)) <= now {
		return nil
	}
	return old
}

// A Row says what an amount of a tenant was used for.
type Row struct {
	Kind  budget.Kind
	Model string // row of the model table; "" if the request was not read
	Key   string // name of the API key; "" if it has none
}

// Compare orders rows by kind, model and key.
func (r Row) Compare(other Row) int {
	return cmp.Or(cmp.Compare(r.Kind, other.Kind), cmp.Compare(r.Model, other.Model), cmp.Compare(r.Key, other.Key))
}

// clean returns the row with names that fit into a record: at most 128 bytes without control
// characters.
func (r Row) clean() Row {
	r.Model, r.Key = cleanName(r.Model), cleanName(r.Key)
	return r
}

const maxName = 128

func cleanName(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, s)
	return s[:min(len(s), maxName)]
}

// folded returns the row for what is not distinguished.
func (r Row) folded() Row { return Row{r.Kind, Other, Other} }

// An Item is what was used in a row.
type Item struct {
	Row
	budget.Amount
}

// A Batch is what a tenant used in a month since the last Batch of the same Writer.
type Batch struct {
	Tenant string
	Month  Month
	Writer string // random name of the process
	Number int64  // of the batch; greater than that of earlier ones of the Writer
	Items  []Item // of different rows
}

// A Reader tells what was used. It is safe for concurrent use.
type Reader interface {
	// Tenants returns the tenants with usage in a month, by name.
	Tenants(ctx context.Context, m Month) ([]string, error)
	// Items returns what a tenant used in a month, by row; none is no error.
	Items(ctx context.Context, m Month, tenant string) ([]Item, error)
}

// A Store keeps usage for KeptMonths.
type Store interface {
	Reader
	// Add adds batches, each of them completely or not at all. A batch that was added before is
	// not added again. It returns an error, or nil, for each batch.
	Add(ctx context.Context, batches []Batch) []error
}
