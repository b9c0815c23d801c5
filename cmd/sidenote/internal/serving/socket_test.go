package serving_test

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/serving"
)

// open opens a configuration with one data port, on a unix socket.
func open(t *testing.T, path string) (serving.Listeners, error) {
	t.Helper()
	c := config.Default()
	c.Listen = config.Ports{{Address: config.Address("unix:" + path)}}
	c.Admin.Listen = config.Off
	return serving.OpenPorts(t.Context(), &c, func(slog.Level, string) {})
}

// P16: a socket left behind by a process is replaced; one in use, or a file of another kind,
// stays. Only the user and group of the process may connect.
func TestSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	first, err := open(t, path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o660 {
		t.Errorf("%v, %v", info, err)
	}
	if at := serving.BaseURL(first.Data[0]); at != "unix:"+path+":/v1" {
		t.Errorf("it is called by %s", at)
	}
	if _, err := open(t, path); err == nil || !strings.Contains(err.Error(), "another process listens on "+path) {
		t.Errorf("the socket of another process: %v", err)
	}
	dial := func() error {
		c, err := net.Dial("unix", path)
		if err == nil {
			err = c.Close()
		}
		return err
	}
	if err := dial(); err != nil {
		t.Errorf("after somebody else tried: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, file); err == nil || !strings.Contains(err.Error(), file+" is there and is no socket") {
		t.Errorf("a file: %v", err)
	}
	first.Close()
	if err := dial(); err == nil {
		t.Error("the socket is open after Close")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "file" {
		t.Errorf("%v is left, %v", left, err)
	}
}

// A process that ends does not remove the socket by which another process replaced its own.
func TestSocketOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	first, err := open(t, path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := open(t, path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	first.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}
