package budget_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/cache/budget"
	"sidenote/cache/budget/budgettest"
)

// segments returns the files of the journal.
func segments(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "budget-*.log"))
	if err != nil || len(names) == 0 {
		t.Fatalf("segments: %v, %v", names, err)
	}
	return names
}

func open(t *testing.T, dir string, clock *budgettest.Clock) rig {
	t.Helper()
	m, err := budget.OpenFile(dir, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	return rig{t, m, clock}
}

func (r rig) end() {
	r.Helper()
	if err := r.Close(); err != nil {
		r.Error(err)
	}
}

// However much of the last record was written when the process was killed, nothing that was
// acknowledged before is lost.
func TestTornTails(t *testing.T) {
	dir, clock := t.TempDir(), budgettest.NewClock()
	r := open(t, dir, clock)
	r.tokens("r1:1", 100, budget.Limits{})
	r.settled("r1:1", 77, budget.Settled)
	name := segments(t, dir)[0]
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r.tokens("r2:1", 1000, budget.Limits{})
	after, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r.end()
	if len(after) <= len(before)+12 {
		t.Fatalf("the last record has %d bytes", len(after)-len(before))
	}
	for size := len(before); size <= len(after); size++ {
		for _, zeros := range []int{0, 5, 40} { // a file that had grown when the machine stopped
			torn := t.TempDir()
			text := append(append([]byte{}, after[:size]...), make([]byte, zeros)...)
			if err := os.WriteFile(filepath.Join(torn, filepath.Base(name)), text, 0o600); err != nil {
				t.Fatal(err)
			}
			r := open(t, torn, clock)
			// The record may be complete if its own last bytes are zeros.
			spent := r.usage(budget.Limits{}).Day.Spent.Tokens
			if whole := size == len(after) || zeros > 0 && size > len(before)+12; spent != 77 && (spent != 1077 || !whole) {
				t.Errorf("cut at byte %d of %d, then %d zeros: %d spent", size-len(before), len(after)-len(before), zeros, spent)
			}
			r.end()
		}
	}
}

// A bit flipped anywhere but in the last record is detected, and nothing is guessed.
func TestDamageIsFound(t *testing.T) {
	dir, clock := t.TempDir(), budgettest.NewClock()
	r := open(t, dir, clock)
	r.tokens("r1:1", 100, budget.Limits{})
	name := segments(t, dir)[0]
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r.tokens("r2:1", 200, budget.Limits{})
	after, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r.end()
	for at := range whole {
		damaged := append([]byte{}, after...)
		damaged[at] ^= 0x10
		bad := t.TempDir()
		if err := os.WriteFile(filepath.Join(bad, filepath.Base(name)), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := budget.OpenFile(bad, clock.Now); !errors.Is(err, budget.ErrCorrupt) {
			t.Errorf("byte %d: got %v, want ErrCorrupt", at, err)
		}
		if left, err := os.ReadFile(filepath.Join(bad, filepath.Base(name))); err != nil || len(left) != len(damaged) {
			t.Errorf("byte %d: the damaged file was changed: %d bytes, %v", at, len(left), err)
		}
	}
}

func TestOneProcessUsesAFolder(t *testing.T) {
	dir, clock := t.TempDir(), budgettest.NewClock()
	r := open(t, dir, clock)
	if _, err := budget.OpenFile(dir, clock.Now); !errors.Is(err, budget.ErrInUse) {
		t.Errorf("a second one: got %v, want ErrInUse", err)
	}
	r.end()
	open(t, dir, clock).end()
}

// The journal moves to new segments as it grows, without losing anything, and deletes the old
// ones.
func TestTheJournalIsCompacted(t *testing.T) {
	dir, clock := t.TempDir(), budgettest.NewClock()
	r := open(t, dir, clock)
	r.SmallSegments(100_000)
	const tenants = 50
	for i := range 6000 { // of some 200 bytes each
		ticket := budget.Ticket{Tenant: fmt.Sprint("t", i%tenants), ID: fmt.Sprintf("request-%d:1", i)}
		if i < 1000 || i%tenants > 10 { // the first ones become idle
			_, err := r.Reserve(t.Context(), budget.Reservation{
				Tenant: ticket.Tenant, ID: ticket.ID, Kind: budget.Chat, Lease: time.Minute,
				Estimate: budget.Amount{Requests: 1, Tokens: 100},
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Settle(t.Context(), budget.Settlement{Ticket: ticket, Actual: budget.Amount{Requests: 1, Tokens: 7}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := func(r rig) (all []budget.Usage) {
		for i := range tenants {
			u, err := r.Usage(t.Context(), fmt.Sprint("t", i), budget.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, u)
		}
		return all
	}
	want := all(r)
	r.end() // waits for deletions
	names := segments(t, dir)
	if len(names) > 2 || filepath.Base(names[len(names)-1]) == "budget-0000000000000001.log" {
		t.Errorf("the files are %v, want the last one or two of several", names)
	}
	r = open(t, dir, clock)
	defer r.end()
	if diff := cmp.Diff(want, all(r)); diff != "" {
		t.Errorf("after it was opened again: %s", diff)
	}
}

// While the disk cannot be written, the ledger refuses and holds nothing; afterwards it is used
// again.
func TestWritesThatFail(t *testing.T) {
	dir, clock := t.TempDir(), budgettest.NewClock()
	r, limits := open(t, dir, clock), budget.Limits{budget.ParallelRequests: 2}
	r.tokens("r1:1", 100, limits)
	end, err := r.FailWrites()
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Reserve(t.Context(), budget.Reservation{
		Tenant: "acme", ID: "r2:1", Kind: budget.Chat, Lease: time.Minute, Limits: limits, Estimate: budget.Amount{Requests: 1, Tokens: 5},
	})
	if err == nil {
		t.Error("a reservation was acknowledged that was not written")
	}
	ticket := budget.Ticket{Tenant: "acme", ID: "r1:1"}
	if _, err := r.Settle(t.Context(), budget.Settlement{Ticket: ticket}); err == nil {
		t.Error("a settlement was acknowledged that was not written")
	}
	end()
	r.settled("r1:1", 60, budget.Settled)
	r.tokens("r3:1", 10, limits)
	if d := r.tokens("r4:1", 10, limits); !d.Granted {
		t.Errorf("what failed holds a place: %+v", d)
	}
	want := r.usage(limits)
	r.end()
	r = open(t, dir, clock)
	defer r.end()
	got := r.usage(limits)
	if got.Day.Spent.Tokens != want.Day.Spent.Tokens+want.Day.Held.Tokens || got.Day.Spent.Tokens != 80 {
		t.Errorf("after it was opened again: %+v, want %+v with all charged", got.Day, want.Day)
	}
}
