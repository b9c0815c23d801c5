package engine

import (
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// A process is ready while its bases are still to be indexed; it says which are.
func TestM08ReadyWhileIndexing(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(config.Source{Flags: config.Flags{Upstream: "http://127.0.0.1:9", Knowledge: []string{"handbook=" + t.TempDir()}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(t.Context(), cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	watched := e.telemetry()
	if watched.Ready != nil && len(watched.Ready()) > 0 {
		t.Errorf("not ready: %v", watched.Ready())
	}
	if lines := watched.Trouble(); len(lines) != 1 || lines[0] != "knowledge handbook: indexing" {
		t.Errorf("trouble %q", lines)
	}
}
