package budget_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/cache/budget/budgettest"
)

// places is the number of bits flipped in each file, one at a time.
const places = 1000

// A usedFolder holds the files, by name, of a ledger that was used and closed.
type usedFolder map[string][]byte

var usedLimits = budget.Limits{budget.TokensPerDay: 1000}

// newUsedFolder returns the files of a ledger in which acme has used 700 of 1,000 tokens.
func newUsedFolder(t *testing.T, clock *budgettest.Clock) usedFolder {
	t.Helper()
	dir := t.TempDir()
	r := open(t, dir, clock)
	for _, id := range []string{"r1:1", "r2:1", "r3:1", "r4:1", "r5:1", "r6:1", "r7:1"} {
		r.tokens(id, 120, usedLimits)
		r.settled(id, 100, budget.Settled)
	}
	r.end()
	files := usedFolder{}
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if files[f.Name()], err = os.ReadFile(filepath.Join(dir, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// with writes the files to a folder, one of them with other content.
func (files usedFolder) with(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for other, text := range files {
		if other == name {
			text = content
		}
		if err := os.WriteFile(filepath.Join(dir, other), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// memoryDir returns a folder on which a sync costs nothing, if there is one.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sidenote")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// newFile opens a folder that may be damaged.
func newFile(t *testing.T, dir string, o budget.FileOptions) *budget.File {
	t.Helper()
	f, err := budget.NewFile(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// reserves reserves one request of 400 tokens, for which acme has no room.
func reserves(l budget.Ledger, id string, limits, allowance budget.Limits) (budget.Decision, error) {
	return l.Reserve(context.Background(), budget.Reservation{
		Tenant: "acme", ID: id, Kind: budget.Chat, Lease: time.Minute,
		Limits: limits, Allowance: allowance, Estimate: budget.Amount{Requests: 1, Tokens: 400},
	})
}

// A ledger file that is damaged anywhere, cut, filled with zeros or unreadable does not prevent
// opening the ledger. While its usage is unknown, the ledger grants nothing with limits, says so,
// and keeps the damaged files.
func TestNoDamageIsFatal(t *testing.T) {
	clock := budgettest.NewClock()
	files := newUsedFolder(t, clock)
	segment, dir := segmentOf(t, files), filepath.Join(memoryDir(t), "budgets")
	check := func(name, how string, content []byte) {
		t.Helper()
		files.with(t, dir, name, content)
		noticed := 0
		f := newFile(t, dir, budget.FileOptions{Now: clock.Now, Notice: func(string) { noticed++ }})
		defer func() {
			if err := f.Close(); err != nil {
				t.Errorf("%s, %s: close: %v", name, how, err)
			}
		}()
		d, err := reserves(f, "r8:1", usedLimits, budget.Limits{})
		if name != segment { // the counts are intact
			if err != nil || d.Granted || f.Trouble() != nil {
				t.Errorf("%s, %s: %+v, %v, %v, want a refusal", name, how, d, err, f.Trouble())
			}
			if name == "closed" && noticed != 1 {
				t.Errorf("%s, %s: not noticed", name, how)
			}
			return
		}
		if !errors.Is(err, budget.ErrSkipped) || !errors.Is(f.Trouble(), budget.ErrCorrupt) {
			t.Errorf("%s: reserved %+v, %v, trouble %v", how, d, err, f.Trouble())
		}
		if kept, err := os.ReadFile(filepath.Join(dir, name+".damaged")); err != nil || !bytes.Equal(kept, content) {
			t.Errorf("%s: the damaged file is not kept: %d bytes, %v", how, len(kept), err)
		}
		if d, err := reserves(f, "r9:1", budget.Limits{}, budget.Limits{}); err != nil || !d.Granted {
			t.Errorf("%s: without limits %+v, %v", how, d, err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for name, text := range files {
		if len(text) == 0 {
			continue // nothing in it is read
		}
		for range places {
			flipped := bytes.Clone(text)
			at := random.IntN(8 * len(text))
			flipped[at/8] ^= 1 << (at % 8)
			check(name, fmt.Sprintf("bit %d of byte %d", at%8, at/8), flipped)
		}
		for range 100 {
			check(name, "cut", text[:random.IntN(len(text))])
		}
		check(name, "zeros", make([]byte, len(text)))
	}
}

// segmentOf returns the only segment of a folder.
func segmentOf(t *testing.T, files usedFolder) (name string) {
	t.Helper()
	for other := range files {
		if ok, _ := filepath.Match("budget-*.log", other); ok {
			return other
		}
	}
	t.Fatal("there is no segment")
	return ""
}

// With an allowance a tenant has that much while the usage is unknown. When the damaged files have
// been removed, usage is counted anew, including what was granted meanwhile.
func TestDamageIsOverWhenTheFilesAreRemoved(t *testing.T) {
	clock := budgettest.NewClock()
	files, dir := newUsedFolder(t, clock), filepath.Join(t.TempDir(), "budgets")
	name := segmentOf(t, files)
	files.with(t, dir, name, make([]byte, 100))
	var changes []string
	o := budget.FileOptions{Now: clock.Now, Changed: func(trouble error) {
		if trouble == nil {
			changes = append(changes, "over")
			return
		}
		changes = append(changes, trouble.Error())
	}}
	for range 2 { // a restart changes nothing
		f := newFile(t, dir, o)
		if _, err := reserves(f, "r8:1", usedLimits, budget.Limits{}); !errors.Is(err, budget.ErrSkipped) {
			t.Errorf("reserved: %v", err)
		}
		if _, err := f.Usage(t.Context(), "acme", usedLimits); err == nil {
			t.Error("the usage is told though it is not known")
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	f := newFile(t, dir, o)
	allowed := budget.NewFallback(f, budget.NewMemory(clock.Now), func(s budget.Settlement) { t.Errorf("abandoned %v", s) })
	d, err := reserves(allowed, "r9:1", usedLimits, budget.Limits{budget.TokensPerDay: 500})
	if err != nil || !d.Granted || !d.Ticket.Local {
		t.Fatalf("with an allowance %+v, %v", d, err)
	}
	if d, err := reserves(allowed, "r10:1", usedLimits, budget.Limits{budget.TokensPerDay: 500}); err != nil || d.Granted {
		t.Errorf("beyond the allowance %+v, %v", d, err)
	}
	if _, err := allowed.Settle(t.Context(), budget.Settlement{Ticket: d.Ticket, Actual: budget.Amount{Requests: 1, Tokens: 300}}); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, name+".damaged")); err != nil {
		t.Fatal(err)
	}
	f.Look()
	if u, err := f.Usage(t.Context(), "acme", usedLimits); err != nil || u.Day.Spent.Tokens != 300 || f.Trouble() != nil {
		t.Errorf("%+v, %v, %v, want 300 spent", u.Day, err, f.Trouble())
	}
	if d, err := reserves(f, "r11:1", usedLimits, budget.Limits{}); err != nil || !d.Granted {
		t.Errorf("then %+v, %v", d, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if n := len(changes); n != 4 || changes[3] != "over" || !strings.Contains(changes[0], "damaged") {
		t.Errorf("told %q", changes)
	}
}

// A folder that cannot be opened is used as soon as it can, with its content.
func TestUnusableFolderIsTriedAgain(t *testing.T) {
	clock := budgettest.NewClock()
	files := newUsedFolder(t, clock)
	for name := range files {
		if name == "closed" {
			continue // not needed to open it
		}
		dir := filepath.Join(t.TempDir(), "budgets")
		files.with(t, dir, "", nil)
		path := filepath.Join(dir, name)
		unreadable := func() error {
			return errors.Join(os.Rename(path, dir+".away"), os.MkdirAll(filepath.Join(path, "x"), 0o700))
		}
		readable := func() error { return errors.Join(os.RemoveAll(path), os.Rename(dir+".away", path)) }
		if err := unreadable(); err != nil {
			t.Fatal(err)
		}
		f := newFile(t, dir, budget.FileOptions{Now: clock.Now})
		if _, err := reserves(f, "r8:1", usedLimits, budget.Limits{}); !errors.Is(err, budget.ErrSkipped) || f.Trouble() == nil {
			t.Errorf("%s: reserved: %v, trouble %v", name, err, f.Trouble())
		}
		if err := readable(); err != nil {
			t.Fatal(err)
		}
		f.Look()
		if d, err := reserves(f, "r8:1", usedLimits, budget.Limits{}); err != nil || d.Granted || f.Trouble() != nil {
			t.Errorf("%s: then %+v, %v, trouble %v, want what was counted before", name, d, err, f.Trouble())
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	file := filepath.Join(t.TempDir(), "budgets")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFile(t, file, budget.FileOptions{Now: clock.Now})
	if f.Trouble() == nil {
		t.Error("a file in place of the folder is no trouble")
	}
	if err := errors.Join(os.Remove(file), f.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// A disk that cannot be written is reported as a problem until it can. Meanwhile only allowances
// are granted, which are charged afterwards.
func TestWritesThatFailAreTrouble(t *testing.T) {
	clock, changes := budgettest.NewClock(), 0
	f := newFile(t, t.TempDir(), budget.FileOptions{Now: clock.Now, Changed: func(error) { changes++ }})
	end, err := f.FailWrites()
	if err != nil {
		t.Fatal(err)
	}
	if f.Trouble() != nil {
		t.Errorf("before any write: %v", f.Trouble())
	}
	allowance := budget.Limits{budget.TokensPerDay: 500}
	allowed := budget.NewFallback(f, budget.NewMemory(clock.Now), func(s budget.Settlement) { t.Errorf("abandoned %v", s) })
	if _, err := reserves(allowed, "r1:1", usedLimits, budget.Limits{}); !errors.Is(err, budget.ErrSkipped) || f.Trouble() == nil || changes != 1 {
		t.Errorf("without an allowance %v, trouble %v, %d changes", err, f.Trouble(), changes)
	}
	d, err := reserves(allowed, "r2:1", usedLimits, allowance)
	if err != nil || !d.Granted {
		t.Fatalf("with an allowance %+v, %v", d, err)
	}
	if unlimited, err := reserves(allowed, "r3:1", budget.Limits{}, budget.Limits{}); err != nil || !unlimited.Granted {
		t.Errorf("without limits %+v, %v", unlimited, err)
	}
	s := budget.Settlement{Ticket: d.Ticket, Actual: budget.Amount{Requests: 1, Tokens: 300}}
	if _, err := allowed.Settle(t.Context(), s); err == nil {
		t.Error("settled on a disk that takes no writes")
	}
	if f.Look(); f.Trouble() == nil || changes != 1 {
		t.Errorf("trouble %v, %d changes", f.Trouble(), changes)
	}
	end()
	if f.Look(); f.Trouble() != nil || changes != 2 {
		t.Errorf("then trouble %v, %d changes", f.Trouble(), changes)
	}
	if _, err := allowed.Settle(t.Context(), s); err != nil {
		t.Error(err)
	}
	if u, err := f.Usage(t.Context(), "acme", usedLimits); err != nil || u.Day.Spent.Tokens != 300 {
		t.Errorf("%+v, %v, want 300 spent", u.Day, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
