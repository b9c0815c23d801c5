//go:build linux || darwin

package client

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/client/clienttest"
)

// A writer on a unix socket is used if its user may read the folder's token and if it proves to
// know it.
func TestWriterOnSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	state, who := clienttest.LockedState(t, "unix:"+path)
	serveWriter(t, ln, state)
	if err := asked(t, who, new(Certificate)); err == nil || err.Error() != nothing {
		t.Errorf("the writer answers %v", err)
	}
	_, other := clienttest.LockedState(t, "unix:"+path)
	if err := asked(t, other, new(Certificate)); !errors.Is(err, ErrUnproven) {
		t.Errorf("of another folder: %v", err)
	}
	who.Address = "unix:" + path + "x"
	if err := asked(t, who, new(Certificate)); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a socket: %v", err)
	}
}

// Only a user who can read the folder's token may listen for it: a listener of another user would
// receive it.
func TestListenerOfAnotherUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // a test's
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // a test's
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var uid uint32
	if failed := raw.Control(func(fd uintptr) { uid, err = listenerUser(fd) }); failed != nil || err != nil || int(uid) != os.Getuid() {
		t.Errorf("user %d listens, %v, %v", uid, failed, err)
	}
	state, _ := clienttest.LockedState(t, "")
	if err := checkListener(conn.(*net.UnixConn), state); err != nil {
		t.Errorf("a listener of ours: %v", err)
	}
	if err := checkListener(conn.(*net.UnixConn), t.TempDir()); err == nil {
		t.Error("a folder without a token has one")
	}
	for user, refused := range map[uint32]bool{0: false, 7: false, 8: true} {
		if err := mayListen(user, 7); errors.Is(err, ErrUnproven) != refused {
			t.Errorf("user %d: %v", user, err)
		}
	}
}
