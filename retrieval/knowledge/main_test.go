package knowledge_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

// childEnv names what a child of the tests does instead of testing.
const childEnv = "KNOWLEDGE_TEST_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		if err := children()[what](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child prepares the test binary to run as a child.
func child(t *testing.T, what string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), append(env, childEnv+"="+what, "GORACE=atexit_sleep_ms=0")...)
	cmd.Stderr = os.Stderr
	return cmd
}
