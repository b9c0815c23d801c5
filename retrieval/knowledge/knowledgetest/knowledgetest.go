// Package knowledgetest has what the tests of the knowledge packages share.
package knowledgetest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// childEnv names the function that a child process of the tests runs instead of them.
const childEnv = "KNOWLEDGE_TEST_CHILD"

// Main runs the tests of a package or, in a child process, one of the functions in children.
func Main(m *testing.M, children map[string]func() error) {
	if what := os.Getenv(childEnv); what != "" {
		if err := children[what](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// ShortChecks sets how many cases rapid generates with -short, unless a flag says so. It must be called
// before the tests run.
func ShortChecks(n int) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); testing.Short() && f.Value.String() == f.DefValue {
		if err := f.Value.Set(strconv.Itoa(5 * n)); err != nil { // rapid runs a fifth with -short
			panic(err)
		}
	}
}

// Child returns a command that runs the test binary as a child process.
func Child(t *testing.T, what string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self) // not t.Context(): that ends before cleanups
	cmd.Env = append(os.Environ(), append(env, childEnv+"="+what, "GORACE=atexit_sleep_ms=0")...)
	cmd.Stderr = os.Stderr
	return cmd
}

// FourBytes is a counter of one token per four bytes, which is about right for English.
type FourBytes struct{}

// Count counts the tokens of a text.
func (FourBytes) Count(text string) (n int, exact bool) { return (len(text) + 3) / 4, false }

// Handbook returns a small base: fourteen documents of a small company.
func Handbook() map[string]string {
	return map[string]string{
		"leave.md":      "# Leave policy\n\n## Parental leave\n\nEvery parent may take 16 weeks of paid leave in the first year after a birth or an adoption.\n\n## Sick leave\n\nCall in before nine. A doctor's note is needed from the third day on.\n",
		"holidays.md":   "# Holidays\n\nEverybody has 28 days of holiday a year. Up to five days can be carried over until the end of March.\n",
		"travel.md":     "# Travel\n\n## Booking\n\nFlights and hotels are booked through the portal. Trains are preferred below five hours.\n\n## Expenses\n\nReceipts are handed in within a month. Meals are paid up to 40 euros a day.\n",
		"benefits.md":   "# Benefits\n\nThe company pays for a gym membership, a bicycle lease and a yearly health check.\n",
		"remote.md":     "# Working from home\n\nUp to three days a week can be worked from home. The desk and the chair are paid for once.\n",
		"laptop.md":     "# Laptops and phones\n\nA new laptop comes every four years. Lost devices are reported to the help desk at once.\n",
		"passwords.md":  "# Passwords\n\nUse the password manager. Two factors are required for every account that can reach customer data.\n",
		"onboarding.md": "# First week\n\nYour manager shows you around. Accounts are ready on the first day; ask the help desk if one is missing.\n",
		"pension.md":    "# Pension\n\nThe company adds 5 percent of the salary to the pension plan after six months of service.\n",
		"training.md":   "# Training\n\nEverybody has a budget of 1500 euros a year for courses, books and conferences.\n",
		"conduct.md":    "# Code of conduct\n\nTreat colleagues with respect. Report harassment to the people team or to the outside ombudsman.\n",
		"overtime.md":   "# Overtime\n\nOvertime is agreed with the manager before and taken as time off within three months.\n",
		"leaving.md":    "# Leaving the company\n\nThe notice period is three months. Devices are returned on the last day.\n",
		"office.md":     "# Office\n\nThe office in Lisbon is open from seven to ten. Visitors sign in at the desk.\n",
	}
}

// DrawAttributes draws attributes with few distinct keys and values, so that filters often match.
func DrawAttributes(t *rapid.T) map[string]any {
	text := rapid.SampledFrom([]string{"ant", "anthill", "bee", ""})
	value := rapid.OneOf(
		rapid.Map(text, func(s string) any { return s }),
		rapid.Map(rapid.IntRange(-1, 2), func(n int) any { return n }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.SliceOfN(text, 0, 2), func(l []string) any { return l }),
	)
	return rapid.MapOfN(rapid.SampledFrom([]string{"k", "l", "m"}), value, 0, 3).Draw(t, "attributes")
}

// Measure runs a benchmark and reports the processor time of f.
func Measure(b *testing.B, f func(i int)) {
	start := CPU(b)
	for i := 0; b.Loop(); i++ {
		f(i)
	}
	b.ReportMetric(float64((CPU(b)-start).Microseconds())/float64(b.N), "cpu-µs/op")
}
