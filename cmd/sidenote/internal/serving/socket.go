package serving

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"
)

// socketMode lets the user and the group of the process connect.
const socketMode = 0o660

// A socket is a unix socket listener that removes its file when it is closed.
type socket struct {
	*net.UnixListener
	path   string
	file   fs.FileInfo
	remove sync.Once
}

// listenUnix opens a unix socket. It replaces a socket that nobody listens on; one in use, or a
// file of another kind, is an error. The socket has a temporary name until its mode is set, so
// that nobody else can connect.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := free(ctx, path); err != nil {
		return nil, err
	}
	temporary := path + ".new"
	if err := free(ctx, temporary); err != nil {
		return nil, err
	}
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", temporary)
	if err != nil {
		return nil, err
	}
	s := &socket{UnixListener: l.(*net.UnixListener), path: path}
	s.SetUnlinkOnClose(false)
	if err = os.Chmod(temporary, socketMode); err == nil {
		if s.file, err = os.Lstat(temporary); err == nil {
			err = os.Rename(temporary, path)
		}
	}
	if err != nil {
		_ = s.UnixListener.Close()
		_ = os.Remove(temporary)
		return nil, err
	}
	return s, nil
}

// probeWait limits how long a listening process may take to accept a connection.
const probeWait = time.Second

// free returns an error unless a socket can be created at path.
func free(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is no socket", path)
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	if err == nil || ctx.Err() != nil {
		return fmt.Errorf("another process listens on %s", path)
	}
	return nil
}

// Addr returns the address with the final name of the socket.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close removes the file, unless it was replaced by another.
func (s *socket) Close() error {
	s.remove.Do(func() {
		if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.file) {
			_ = os.Remove(s.path) // one that stays is replaced by the next process
		}
	})
	return s.UnixListener.Close()
}
