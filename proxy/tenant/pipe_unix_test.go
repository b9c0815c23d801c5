//go:build unix

package tenant_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sidenote/proxy/tenant"
)

// Row P1: a pipe instead of a file is refused at once, even if somebody writes to it.
func TestP1Pipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tenant.KeysFromFile(path).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("%v", err)
	}
}
