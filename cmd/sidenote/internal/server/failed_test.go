package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sidenote/cmd/sidenote/internal/config"
)

// A start that fails, because the state folder lacks a base, leaves nothing running.
func TestFailedStartClosesWhatItOpened(t *testing.T) {
	before := goleak.IgnoreCurrent()
	dir := t.TempDir()
	yaml := fmt.Sprintf("upstream: http://127.0.0.1:9\nstate: %q\nredis: redis://127.0.0.1:9\nbudgets: {store: process}\nknowledge: {kb: {engine: embedded}}\n"+
		"policies: {default: {limits: {tokens_per_day: 5}}}\n", dir)
	path := filepath.Join(t.TempDir(), "sidenote.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(t.Context(), cfg, Options{Serve: true})
	if e != nil || err == nil || !strings.Contains(err.Error(), "holds no knowledge yet") {
		t.Fatalf("%v, %v", e, err)
	}
	for limit := time.Now().Add(20 * time.Second); ; {
		left := goleak.Find(before)
		if left == nil {
			return
		}
		if time.Now().After(limit) {
			t.Fatal(left)
		}
	}
}
