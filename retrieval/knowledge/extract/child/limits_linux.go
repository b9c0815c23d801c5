package child

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolate puts a child into its own process group, which is killed as a whole.
func isolate(cmd *exec.Cmd) {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
}

// outOfTime tells whether the system ended a child because it used too much processor time.
func outOfTime(exit *exec.ExitError) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == unix.SIGXCPU || status.Signal() == unix.SIGKILL)
}

// limit sets the limits of this process.
func limit() error {
	used, err := addressSpace()
	if err != nil {
		return err
	}
	return limitProcess(0, used+maxMemory*shadows)
}

// addressSpace returns the address space that this process has already. Go reserves about
// a gigabyte at the start without using it.
func addressSpace() (uint64, error) {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var pages uint64
	if _, err := fmt.Fscan(bytes.NewReader(raw), &pages); err != nil {
		return 0, err
	}
	return pages * uint64(os.Getpagesize()), nil
}

// limitOther sets the limits of another process.
func limitOther(pid int) error { return limitProcess(pid, maxMemory) }

// limitProcess sets the limits of a process; pid 0 is this one.
func limitProcess(pid int, memory uint64) error {
	for _, l := range []struct {
		what int
		most uint64
	}{{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, 0}, {unix.RLIMIT_NOFILE, maxFiles}, {unix.RLIMIT_CPU, maxCPU}, {unix.RLIMIT_AS, memory}} {
		if err := unix.Prlimit(pid, l.what, &unix.Rlimit{Cur: l.most, Max: l.most}, nil); err != nil {
			return fmt.Errorf("limit process: %w", err)
		}
	}
	return nil
}
