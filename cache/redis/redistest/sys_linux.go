package redistest

import (
	"net"
	"os"
	"os/exec"
	"syscall"
)

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func thaw(p *os.Process) error   { return p.Signal(syscall.SIGCONT) }

// endWithTests has cmd end when the tests do in a way that runs no clean-up,
// like a timeout.
func endWithTests(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// shrinkBacklog leaves the least room for connections that nobody accepted.
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
