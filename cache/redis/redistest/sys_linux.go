package redistest

import (
	"net"
	"os"
	"os/exec"
	"syscall"
)

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func thaw(p *os.Process) error   { return p.Signal(syscall.SIGCONT) }

// endWithTests makes cmd end with the test process even if that runs no clean-up, as
// after a timeout.
func endWithTests(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// shrinkBacklog sets the smallest queue of connections that are not accepted yet.
func shrinkBacklog(ln *net.TCPListener) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	var listening error
	if err := raw.Control(func(fd uintptr) { listening = syscall.Listen(int(fd), 0) }); err != nil {
		return err
	}
	return listening
}
