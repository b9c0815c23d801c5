package budget_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"sidenote/cache/budget"
	"sidenote/cache/budget/budgettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryMachine(t *testing.T) {
	budgettest.Machine(t, func(_ *rapid.T, clock *budgettest.Clock) budgettest.Subject {
		return budgettest.Subject{Ledger: budget.NewMemory(clock.Now)}
	})
}

// A ledger whose process is killed continues from its files. Killed means that it is not closed:
// the files are copied as they are.
func TestFileMachine(t *testing.T) {
	budgettest.Machine(t, func(rt *rapid.T, clock *budgettest.Clock) budgettest.Subject {
		dir := t.TempDir()
		m := openFile(rt, dir, clock)
		return budgettest.Subject{Ledger: m, Charges: true, Restart: func() budgettest.Full {
			killed := t.TempDir()
			copyFiles(rt, killed, dir)
			dir = killed
			return openFile(rt, dir, clock)
		}}
	})
}

func openFile(t *rapid.T, dir string, clock *budgettest.Clock) *budget.Memory {
	m, err := budget.OpenFile(dir, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func copyFiles(t *rapid.T, to, from string) {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "lock")); err != nil {
		t.Fatal(err)
	}
}
