// Package recordtest has records for tests.
package recordtest

import (
	"iter"

	"sidenote/proxy/record"
)

// A List is a record.Store in memory, whose records are in order.
type List []*record.Record

// All implements record.Store.
func (l List) All(q record.Query) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		for _, r := range l {
			chosen := (q.Policy == "" || r.Policy == q.Policy) && (q.Tenant == "" || r.Tenant == q.Tenant) &&
				(q.Since.IsZero() || !r.Time.Before(q.Since)) && (q.Until.IsZero() || r.Time.Before(q.Until))
			if chosen && !yield(r, nil) {
				return
			}
		}
	}
}
