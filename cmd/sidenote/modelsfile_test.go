package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A running Sidenote loads a newer models_file on reload. A broken or missing one changes nothing,
// and the error says where.
func TestModelsFileIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		fresh := filepath.Join(dir, name+".new")
		if err := errors.Join(os.WriteFile(fresh, []byte(text), 0o600), os.Rename(fresh, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	rows := func(window int) string {
		return fmt.Sprintf("date: 2026-11-28\nmodels: [{match: brand-new, window: %d}]\n", window)
	}
	write("token", "t0ken")
	write("models.yaml", rows(20_000))
	write("sidenote.yaml", "upstream: http://127.0.0.1:9/v1\nadmin: {token: {file: token}}\nmodels_file: models.yaml\n")
	p := serve(t, "--config", filepath.Join(dir, "sidenote.yaml"), "--state", ":memory:")
	window := func() int {
		t.Helper()
		status, text := posted(t, p.admin+"/v1/rewrite", "t0ken", `{"model":"vendor/brand-new:free","messages":[{"role":"user","content":"Hello there"}]}`)
		var run struct {
			Ledger struct {
				Window struct{ Size int } `json:"window"`
			} `json:"ledger"`
		}
		if err := json.Unmarshal([]byte(text), &run); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s: %v", status, text, err)
		}
		return run.Ledger.Window.Size
	}
	if got := window(); got != 20_000 {
		t.Errorf("window at the start: %d", got)
	}
	write("models.yaml", rows(30_000))
	if r, text := reloaded(t, p, http.StatusOK); !slices.Contains(r.Keys, "models_file") {
		t.Errorf("a newer file: %s", text)
	}
	if got := window(); got != 30_000 {
		t.Errorf("window of the newer file: %d", got)
	}
	write("models.yaml", "date: 2026-11-28\nmodels: [{match: brand-new, window: -1}]\n")
	if _, text := reloaded(t, p, http.StatusUnprocessableEntity); !strings.Contains(text, "models.yaml:2:37: models[0].window") {
		t.Errorf("a broken file: %s", text)
	}
	if err := os.Remove(filepath.Join(dir, "models.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, text := reloaded(t, p, http.StatusUnprocessableEntity); !strings.Contains(text, `models.yaml\" not found`) {
		t.Errorf("a file that is gone: %s", text)
	}
	if got := window(); got != 30_000 {
		t.Errorf("window after files that are no use: %d", got)
	}
}
