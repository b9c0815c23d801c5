package enginetest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// PgBouncer starts a PgBouncer in front of a database, in transaction mode, and returns its URL. It has
// further settings, a line each, which may name files, runs in the folder of these, and takes any
// user for that of address. Where there is no PgBouncer the test is skipped, but fails if $CI is set.
func PgBouncer(t testing.TB, address, settings string, files ...File) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		missing(t, errors.New("pgbouncer is missing; it is in Debian's package pgbouncer"))
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port := freePort(t)
	config := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%d\nunix_socket_dir=\nauth_type=any\npool_mode=transaction\ndefault_pool_size=2\n%s\n",
		u.Hostname(), u.Port(), u.User.Username(), port, settings)
	file := filepath.Join(dir, "pgbouncer.ini")
	files = append(files, File{"pgbouncer.ini", []byte(config)})
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Text, 0o644); err != nil { //nolint:gosec // another user reads it
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // another user reads it
		t.Fatal(err)
	}
	args := []string{file}
	if os.Getuid() == 0 {
		args = append([]string{"--user", "nobody"}, args...)
	}
	cmd := exec.Command(program, args...) //nolint:noctx // killed below
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	u.Host = fmt.Sprintf("127.0.0.1:%d", port)
	awaitPort(t, u.Host)
	return u.String()
}

// A File is a file of a server's configuration.
type File struct {
	Name string
	Text []byte
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func awaitPort(t testing.TB, address string) {
	t.Helper()
	tick, end := time.NewTicker(5*time.Millisecond), time.After(limit)
	defer tick.Stop()
	for {
		if conn, err := net.Dial("tcp", address); err == nil { //nolint:noctx // a test
			_ = conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s does not answer", address)
		}
	}
}
