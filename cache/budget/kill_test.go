package budget_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/cache/budget/budgettest"
)

// folderOfVictim names the folder in which the test program, started by itself, reserves and
// settles until it is killed.
const folderOfVictim = "SIDENOTE_TEST_BUDGET_FOLDER"

// TestVictim is the process that TestKilledProcess kills.
func TestVictim(t *testing.T) {
	dir := os.Getenv(folderOfVictim)
	if dir == "" {
		t.Skip("not started by TestKilledProcess")
	}
	r := open(t, dir, budgettest.NewClock())
	r.SmallSegments(20_000) // so that it is also killed while moving to another segment
	for i := range 1_000_000 {
		id := fmt.Sprintf("process%d-%d:1", os.Getpid(), i)
		r.tokens(id, 10, budget.Limits{})
		r.settled(id, 7, budget.Settled)
		fmt.Println("settled", i) // unbuffered: it is acknowledged
	}
}

// Row P7: a process that is killed at any moment has lost nothing that it acknowledged, and
// charged nothing twice.
func TestKilledProcess(t *testing.T) {
	dir := t.TempDir()
	sum, clock := int64(0), budgettest.NewClock() // acknowledged, by all processes
	for _, after := range []int{1, 37, 800} {
		victim := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$")
		victim.Env = append(os.Environ(), folderOfVictim+"="+dir)
		out, err := victim.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		settled := int64(0)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !strings.HasPrefix(lines.Text(), "settled ") {
				t.Fatalf("it says %q", lines.Text())
			}
			if settled++; settled == int64(after) {
				if err := victim.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = victim.Wait() // killed
		if settled < int64(after) {
			t.Fatalf("it ended after %d settlements", settled)
		}
		sum += 7 * settled
		r := open(t, dir, clock)
		u := r.usage(budget.Limits{})
		// The last call was not acknowledged: nothing, its settlement or its estimate may be
		// charged.
		if spent := u.Day.Spent.Tokens; u.Day.Held.Tokens != 0 || spent != sum && spent != sum+7 && spent != sum+10 {
			t.Errorf("after %d settlements: %+v, want %d and one call at most", settled, u.Day, sum)
		}
		sum = u.Day.Spent.Tokens
		r.end()
		clock.Add(time.Millisecond)
	}
}
