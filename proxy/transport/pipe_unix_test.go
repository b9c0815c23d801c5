//go:build unix

package transport_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sidenote/proxy/transport"
)

// Row P1: a pipe in place of a file is refused at once, even if it has a writer.
func TestP1Pipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := transport.CertificatesOnDisk(path).Read(); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("%v", err)
	}
}
