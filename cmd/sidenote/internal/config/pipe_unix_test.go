//go:build unix

package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// Row P1: a pipe without a writer does not block reading the configuration. A pipe with a writer
// is read.
func TestP1Pipes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	read := map[string]func() ([]byte, error){
		"Read":       func() ([]byte, error) { return config.ReadFile(path) },
		"ReadWithin": func() ([]byte, error) { return config.ReadWithin(filepath.Join(dir, "c.yaml"), path) },
	}
	for name, read := range read {
		if data, err := read(); err == nil || !strings.Contains(err.Error(), "nobody writes") {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := w.WriteString("text"); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if data, err := config.ReadFile(fmt.Sprintf("/dev/fd/%d", r.Fd())); string(data) != "text" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}
