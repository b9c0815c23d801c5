package client

import "golang.org/x/sys/unix"

// listenerUser returns the user of the process that listens at the other end of a unix socket.
func listenerUser(fd uintptr) (uid uint32, err error) {
	who, err := unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return who.Uid, nil
}
