//go:build unix

package budget_test

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"sidenote/cache/budget"
	"sidenote/cache/budget/budgettest"
)

// folderOfFull names the folder of the process that TestFullDiskR25 starts: a limit on the size of
// files applies to a whole process.
const folderOfFull = "SIDENOTE_TEST_BUDGET_FULL"

// TestFull is that process. A write without room, or with room for only a part, is an error and
// changes nothing; when there is room again everything continues.
func TestFull(t *testing.T) {
	dir := os.Getenv(folderOfFull)
	if dir == "" {
		t.Skip("not started by TestFullDiskR25")
	}
	signal.Ignore(syscall.SIGXFSZ)
	var roomy syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &roomy); err != nil {
		t.Fatal(err)
	}
	limit := func(bytes uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: roomy.Max}); err != nil {
			t.Fatal(err)
		}
	}
	clock := budgettest.NewClock()
	r := open(t, dir, clock)
	r.tokens("a:1", 10, budget.Limits{})
	for _, part := range []uint64{0, 1, 13} { // bytes of the record that fit
		limit(uint64(size(t, dir)) + part)
		if d, err := r.Reserve(t.Context(), reservation("b:1")); err == nil || d.Granted {
			t.Errorf("reserved with room for %d bytes: %+v", part, d)
		}
		if _, err := r.Settle(t.Context(), budget.Settlement{Ticket: reservation("a:1").Ticket()}); err == nil {
			t.Errorf("settled with room for %d bytes", part)
		}
		if u := r.usage(budget.Limits{}); u.Day.Held.Tokens != 10 || u.Day.Spent.Tokens != 0 {
			t.Errorf("with room for %d bytes: %+v, want 10 held", part, u.Day)
		}
	}
	limit(roomy.Cur)
	r.settled("a:1", 7, budget.Settled)
	r.tokens("c:1", 5, budget.Limits{})
	r.settled("c:1", 4, budget.Settled)
	r.end()
	r = open(t, dir, clock)
	defer r.end()
	if u := r.usage(budget.Limits{}); u.Day.Spent.Tokens != 11 || u.Day.Held.Tokens != 0 {
		t.Errorf("opened again: %+v, want 11 spent", u.Day)
	}
}

// size returns the size of the files in a folder.
func size(t *testing.T, dir string) (n int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

// Row R25: the disk of a process's ledger is full.
func TestFullDiskR25(t *testing.T) {
	full := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFull$")
	full.Env = append(os.Environ(), folderOfFull+"="+t.TempDir())
	if out, err := full.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
