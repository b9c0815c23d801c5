// Package usagetest holds what every store of usage must do.
package usagetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"sidenote/cache/budget"
	"sidenote/cache/usage"
)

// Month is the month of the tests. It is far ahead, so that a store that goes by its own clock
// keeps it.
const Month usage.Month = "2099-10"

// Item returns an item of kind chat.
func Item(model, key string, n int64) usage.Item {
	return usage.Item{
		Row:    usage.Row{Kind: budget.Chat, Model: model, Key: key},
		Amount: budget.Amount{Requests: 1, Tokens: n, Injected: n / 2, Money: n * budget.USD},
	}
}

// Batch returns a batch of Month.
func Batch(tenant, writer string, number int64, items ...usage.Item) usage.Batch {
	return usage.Batch{Tenant: tenant, Month: Month, Writer: writer, Number: number, Items: items}
}

// Add adds batches and expects no error.
func Add(t testing.TB, s usage.Store, batches ...usage.Batch) {
	t.Helper()
	if err := errors.Join(s.Add(t.Context(), batches)...); err != nil {
		t.Fatal(err)
	}
}

// Want compares what a tenant used in Month.
func Want(t testing.TB, s usage.Reader, tenant string, want ...usage.Item) {
	t.Helper()
	got, err := s.Items(t.Context(), Month, tenant)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s used %+v, %v; want %+v", tenant, got, err, want)
	}
}

// Run runs the tests on stores that open returns, each of them empty.
func Run(t *testing.T, open func(t *testing.T) usage.Store) {
	t.Run("rows are added up", func(t *testing.T) {
		s := open(t)
		Add(t, s, Batch("acme", "w", 1, Item("gpt*", "ci", 10), Item("gpt*", "", 1)), Batch("beta", "w", 2, Item("", "", 5)))
		Add(t, s, Batch("acme", "w", 3, Item("gpt*", "ci", 20)))
		sum := Item("gpt*", "ci", 30)
		sum.Requests = 2
		Want(t, s, "acme", Item("gpt*", "", 1), sum)
		Want(t, s, "beta", Item("", "", 5))
		Want(t, s, "nobody")
		if names, err := s.Tenants(t.Context(), Month); err != nil || !slices.Equal(names, []string{"acme", "beta"}) {
			t.Errorf("tenants %q, %v", names, err)
		}
		if names, err := s.Tenants(t.Context(), "2099-09"); err != nil || len(names) > 0 {
			t.Errorf("tenants of another month: %q, %v", names, err)
		}
	})
	t.Run("sums are exact", func(t *testing.T) {
		s := open(t)
		most := usage.Item{Row: usage.Row{Kind: budget.Chat}, Amount: budget.Amount{Money: budget.MaxAmount}}
		want := most
		for n := range int64(20) { // beyond 2⁵³, what doubles can count
			Add(t, s, Batch("acme", "w", n+1, most))
			want.Money = (n + 1) * budget.MaxAmount
		}
		one := most
		one.Money = 1
		Add(t, s, Batch("acme", "w", 21, one))
		want.Money++
		Want(t, s, "acme", want)
	})
	t.Run("rows are bounded", func(t *testing.T) {
		s := open(t)
		var items []usage.Item
		for n := range usage.MaxRows + 100 {
			items = append(items, Item("m", fmt.Sprintf("key-%04d", n), 1))
		}
		Add(t, s, Batch("acme", "w", 1, items...))
		got, err := s.Items(t.Context(), Month, "acme")
		sum := int64(0)
		for _, i := range got {
			sum += i.Requests
		}
		folded := slices.ContainsFunc(got, func(i usage.Item) bool { return i.Model == usage.Other && i.Key == usage.Other && i.Requests > 1 })
		if err != nil || sum != int64(len(items)) || len(got) > usage.MaxRows+1 || !folded {
			t.Errorf("%d rows with %d requests, folded %t, %v", len(got), sum, folded, err)
		}
	})
	t.Run("additions are concurrent", func(t *testing.T) {
		s := open(t)
		var wait sync.WaitGroup
		for n := range int64(20) {
			wait.Go(func() {
				for _, err := range s.Add(t.Context(), []usage.Batch{Batch(fmt.Sprint("t", n%2), fmt.Sprint("w", n), n+1, Item("", "", 1))}) {
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		names, err := s.Tenants(t.Context(), Month)
		if err != nil || len(names) != 2 {
			t.Errorf("tenants %q, %v", names, err)
		}
	})
}
