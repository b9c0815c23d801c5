//go:build unix

package enginetest

import (
	"errors"
	"syscall"
)

const (
	crash  = syscall.SIGQUIT // Postgres calls this an immediate shutdown
	freeze = syscall.SIGSTOP
	thaw   = syscall.SIGCONT
)

// send sends a signal to a process; one that has ended is no error.
func send(pid int, signal syscall.Signal) error {
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
