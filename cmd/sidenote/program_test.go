package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary behave as the program "sidenote" in tests that start processes.
func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"sidenote": func() { os.Exit(mainCode()) }})
}

// A suite runs all tests and removes what they built.
type suite struct{ *testing.M }

func (s suite) Run() int {
	defer os.RemoveAll(builds())
	return s.M.Run()
}

// builds is the folder for what tests build once.
var builds = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "sidenote-builds-")
	if err != nil {
		panic(err)
	}
	return dir
})

// build builds the program that users run, once for all tests.
var build = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(builds(), "sidenote")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	if said, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return binary, nil
})

// released returns the binary that users run, which needs less memory and time than the test
// binary.
func released(t *testing.T) string {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// releasedPath returns a PATH whose program "sidenote" is what users run. With the race detector a
// process takes ten times as long to start and finds little: tests that serve in their own process,
// and those that start the test binary, run the concurrent requests.
func releasedPath(t *testing.T) string {
	t.Helper()
	return filepath.Dir(released(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
}
