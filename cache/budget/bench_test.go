package budget_test

import (
	"strconv"
	"testing"

	"sidenote/cache/budget"
)

// A pair is a reservation and its settlement.
func BenchmarkPair(b *testing.B) {
	file, err := budget.OpenFile(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	pairs := 1_000_000_000
	for name, m := range map[string]*budget.Memory{"memory": budget.NewMemory(nil), "file": file} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := reservation("")
			r.Limits = budget.Limits{1e9, 1e10, 1e10, 1e15, 1e15, 1e15, 1e15, 1000}
			for b.Loop() {
				r.ID = "01J9ZQ3V5W" + strconv.Itoa(pairs) + ":1"
				pairs++
				d, err := m.Reserve(b.Context(), r)
				if err != nil || !d.Granted {
					b.Fatal(d, err)
				}
				if _, err := m.Settle(b.Context(), budget.Settlement{Ticket: d.Ticket, Actual: r.Estimate}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
