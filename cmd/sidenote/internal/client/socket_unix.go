//go:build linux || darwin

package client

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"sidenote/retrieval/knowledge/store"
)

// checkListener returns an error unless the process at the other end of a unix socket belongs to a
// user who may read the token of a state folder: its owner, or root. Otherwise a user with write
// access to the socket's folder could put a socket of their own there and relay the traffic.
func checkListener(conn *net.UnixConn, dir string) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var uid uint32
	if failed := raw.Control(func(fd uintptr) { uid, err = listenerUser(fd) }); failed != nil || err != nil {
		return errors.Join(failed, err)
	}
	info, err := os.Stat(store.TokenPath(dir))
	if err != nil {
		return err
	}
	return mayListen(uid, info.Sys().(*syscall.Stat_t).Uid)
}

// mayListen returns an error unless user is owner or root.
func mayListen(user, owner uint32) error {
	if user != owner && user != 0 {
		return fmt.Errorf("%w: a process of user %d listens, and the folder's token is of user %d", ErrUnproven, user, owner)
	}
	return nil
}
