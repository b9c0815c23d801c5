package server

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// A panic in the background is logged and counted, and the process goes on serving.
func TestBackground(t *testing.T) {
	var said []string
	path := filepath.Join(t.TempDir(), "sidenote.yaml")
	if err := os.WriteFile(path, []byte("upstream: http://127.0.0.1:9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: path, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), cfg, Options{Log: func(_ slog.Level, line string) { said = append(said, line) }})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	s.tasks.Start(func(context.Context) {
		defer close(over)
		panic("beside requests")
	})
	<-over
	if err := s.Close(); err != nil { // waits for it
		t.Error(err)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "BUG: panic: string, not shown as it may hold what a request held\n") || !strings.Contains(said[0], "tasks_test.go") {
		t.Errorf("told %q", said)
	}
	families, err := s.Metrics.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "sidenote_panics_total" && f.GetMetric()[0].GetCounter().GetValue() == 1 {
			return
		}
	}
	t.Error("not counted")
}
