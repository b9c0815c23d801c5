package usage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache/budget"
	"sidenote/cache/usage"
	"sidenote/cache/usage/usagetest"
)

func TestMemory(t *testing.T) {
	usagetest.Run(t, func(*testing.T) usage.Store { return usage.NewMemory() })
}

func openFile(t testing.TB, dir string) *usage.File {
	t.Helper()
	f, err := usage.NewFile(dir, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestFile(t *testing.T) {
	usagetest.Run(t, func(t *testing.T) usage.Store { return openFile(t, t.TempDir()) })
}

// A month is one that has begun and is kept; an error names what was written.
func TestParseMonth(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 30, 0, 0, time.FixedZone("", 3600)) // October, in UTC
	for text, want := range map[string]string{
		"2026-10": "", "2024-10": "",
		"2026-13":    `"2026-13" is no month`,
		"last":       `"last" is no month`,
		"2026-1":     `"2026-1" is no month`,
		"2026-10-01": `"2026-10-01" is no month`,
		"":           `"" is no month`,
		"2026-11":    "2026-11 has not begun; the current month is 2026-10",
		"2024-09":    "2024-09 is not kept; the oldest month is 2024-10",
	} {
		m, err := usage.ParseMonth(text, now)
		if want == "" && (err != nil || string(m) != text) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, %v; want %q", text, m, err, want)
		}
	}
	if got, want := usage.Month("2026-10").Expiry(), time.Date(2028, 11, 1, 0, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("expires at %v, want %v", got, want)
	}
}

// A folder keeps what was added, without what was cut off or damaged, and is for one process.
func TestFileIsOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	f := openFile(t, dir)
	usagetest.Add(t, f, usagetest.Batch("acme", "w", 1, usagetest.Item("a", "", 1), usagetest.Item("b", "", 2), usagetest.Item("c", "", 3)))
	if _, err := usage.NewFile(dir, nil); !errors.Is(err, budget.ErrInUse) {
		t.Errorf("a second process gets %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, string(usagetest.Month)+".usage")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	damaged := strings.Replace(string(text), `"tokens":2`, `"tokens":7`, 1) + "0badc0de {\"tenant\":"
	if err := os.WriteFile(name, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	var said []string
	f, err = usage.NewFile(dir, func(line string) { said = append(said, line) })
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	usagetest.Add(t, f, usagetest.Batch("acme", "w2", 1, usagetest.Item("d", "", 4)))
	usagetest.Want(t, f, "acme", usagetest.Item("a", "", 1), usagetest.Item("c", "", 3), usagetest.Item("d", "", 4))
	if len(said) != 1 || !strings.Contains(said[0], "1 lines of "+name+" are damaged") {
		t.Errorf("said %q", said)
	}
}

// A folder that cannot be used makes additions fail, until it can.
func TestFileIsOpenedLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "usage")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := openFile(t, dir)
	batch := usagetest.Batch("acme", "w", 1, usagetest.Item("a", "", 1))
	if errs := f.Add(t.Context(), []usage.Batch{batch}); len(errs) != 1 || errs[0] == nil {
		t.Fatalf("a file in place of the folder: %v", errs)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	usagetest.Add(t, f, batch)
	usagetest.Want(t, f, "acme", usagetest.Item("a", "", 1))
}

// A file stays small however often a row is added to, and months that are not kept are removed.
func TestFileIsRewrittenAndPruned(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "2097-09.usage")
	for _, name := range []string{old, filepath.Join(dir, "2099-09.usage")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := openFile(t, dir)
	var items []usage.Item
	for n := range 500 {
		items = append(items, usagetest.Item("model", fmt.Sprint("key-", n), 1))
	}
	largest := int64(0)
	for n := range int64(200) {
		usagetest.Add(t, f, usagetest.Batch("acme", "w", n+1, items...))
		info, err := os.Stat(filepath.Join(dir, string(usagetest.Month)+".usage"))
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	got, err := f.Items(t.Context(), usagetest.Month, "acme")
	if err != nil || len(got) != 500 || got[0].Requests != 200 {
		t.Errorf("%d rows, %v", len(got), err)
	}
	if largest > 5<<20 || largest < 3<<20 { // without it, 8 MB
		t.Errorf("the file had %d bytes", largest)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a month that is not kept: %v", err)
	}
}

// A clock that is years ahead for a moment removes no bill.
func TestWrongClockRemovesNothing(t *testing.T) {
	for name, s := range map[string]usage.Store{"memory": usage.NewMemory(), "file": openFile(t, t.TempDir())} {
		batch := func(month usage.Month, number int64) {
			b := usagetest.Batch("acme", "w", number, usagetest.Item("m", "", 1))
			b.Month = month
			usagetest.Add(t, s, b)
		}
		kept := func(when string, months ...usage.Month) {
			t.Helper()
			for _, m := range months {
				if items, err := s.Items(t.Context(), m, "acme"); err != nil || len(items) != 1 {
					t.Errorf("%s, %s: %s has %v, %v", name, when, m, items, err)
				}
			}
		}
		batch("2097-09", 1)
		batch("2099-08", 1)
		batch("2099-09", 1)
		kept("at first", "2097-09", "2099-08", "2099-09")
		batch("2110-05", 1)
		batch("2099-09", 2)
		kept("after the wrong month", "2097-09", "2099-08", "2099-09")
		batch("2099-10", 1)
		kept("a month later", "2099-08", "2099-09", "2099-10")
		if items, err := s.Items(t.Context(), "2097-09", "acme"); err != nil || len(items) > 0 {
			t.Errorf("%s: 2097-09 is still kept: %v, %v", name, items, err)
		}
	}
}

// A flaky store fails after it has added, or before.
type flaky struct {
	usage.Store
	mu            sync.Mutex
	before, after error
}

func (f *flaky) Add(ctx context.Context, batches []usage.Batch) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.before != nil {
		return slices.Repeat([]error{f.before}, len(batches))
	}
	errs := f.Store.Add(ctx, batches)
	if f.after != nil {
		return slices.Repeat([]error{f.after}, len(batches))
	}
	return errs
}

func (f *flaky) fail(before, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

// Whatever fails, each call is counted once, in the month in which it ended.
func TestCounterCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().UTC()
		time.Sleep(time.Date(start.Year(), start.Month()+1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Hour).Sub(start)) // before the store is asked
		down := errors.New("down")
		store := &flaky{Store: usage.NewMemory()}
		var changes []error
		c := usage.NewCounter(store, usage.CounterOptions{Changed: func(err error) { changes = append(changes, err) }})
		call := budget.MeteredCall{Tenant: "acme", Kind: budget.Chat, Model: "gpt*", Key: "c\ti"}
		want := map[usage.Month]int64{}
		settle := func() {
			c.Settled(call, budget.Amount{Requests: 1, Tokens: 10})
			want[usage.MonthOf(time.Now())]++
		}
		for _, errs := range [][2]error{{}, {down, nil}, {nil, down}, {}} {
			store.fail(errs[0], errs[1])
			for range 20 {
				settle()
				time.Sleep(time.Second)
			}
		}
		store.fail(down, nil)
		now := time.Now().UTC()
		settle()
		time.Sleep(time.Date(now.Year(), now.Month()+1, 1, 0, 0, 1, 0, time.UTC).Sub(now))
		settle()
		store.fail(nil, nil)
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for month, n := range want {
			items, err := c.Items(t.Context(), month, "acme")
			if err != nil || len(items) != 1 || items[0].Amount != (budget.Amount{Requests: n, Tokens: 10 * n}) || items[0].Key != "c i" {
				t.Errorf("%s: %+v, %v; want %d requests", month, items, err, n)
			}
		}
		// Down twice, of which the second time is reported once more as over at the end.
		told := ""
		for _, err := range changes {
			told += fmt.Sprint(err, " ")
		}
		if len(want) != 2 || told != "down <nil> down <nil> " {
			t.Errorf("%d months, told %q", len(want), told)
		}
	})
}

// While the store fails, the memory of a counter is bounded.
func TestCounterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flaky{Store: usage.NewMemory(), before: errors.New("down")}
		c := usage.NewCounter(store, usage.CounterOptions{})
		const calls = 150_000
		for n := range calls {
			c.Settled(budget.MeteredCall{Tenant: fmt.Sprint("t", n%100), Kind: budget.Chat, Key: fmt.Sprint(n)}, budget.Amount{Requests: 1})
		}
		store.fail(nil, nil)
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		names, err := c.Tenants(t.Context(), usage.MonthOf(time.Now()))
		sum := int64(0)
		for _, name := range names {
			items, _ := c.Items(t.Context(), usage.MonthOf(time.Now()), name)
			for _, i := range items {
				sum += i.Requests
			}
		}
		if err != nil || sum != calls {
			t.Errorf("counted %d calls of %d, %v", sum, calls, err)
		}
	})
}

// What a request pays for being counted.
func BenchmarkSettled(b *testing.B) {
	c := usage.NewCounter(usage.NewMemory(), usage.CounterOptions{})
	call := budget.MeteredCall{Tenant: "acme", Kind: budget.Chat, Model: "gpt-5*", Key: "ci"}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Settled(call, budget.Amount{Requests: 1, Tokens: 1000, Money: 5})
		}
	})
	if err := c.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}
