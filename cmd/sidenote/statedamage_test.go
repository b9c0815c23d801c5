package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// as sends a chat with a key, and returns the status of the answer.
func (p *process) as(t *testing.T, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(leaveQuestion))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	must(t, resp.Body.Close())
	return resp.StatusCode
}

// limitedAndFree is a configuration with a tenant that has limits and one that has none.
func limitedAndFree(t *testing.T, state, budgets string) string {
	t.Helper()
	return written(t, "sidenote.yaml", fmt.Sprintf(`upstream: %s
knowledge: {handbook: %q}
state: {path: %q}
policies: {default: {max_output_tokens: 100}}
tenants:
  limited: {keys: [%s], knowledge: [handbook], limits: {requests_per_minute: 100}}
  free: {keys: [%s], knowledge: [handbook]}
%s`, newRecorder(t).URL, handbook(t), state, digestOf(acmeKey), digestOf(umbraKey), budgets))
}

// usedState returns a closed state folder that has every kind of file.
func usedState(t *testing.T) (state string) {
	t.Helper()
	state = filepath.Join(t.TempDir(), "state")
	p := serve(t, "--config", limitedAndFree(t, state, ""), "--state", state)
	for range 3 {
		if status := p.as(t, acmeKey); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	p.asks(t, "POST", "/v1/mode", `{"mode":"shadow","tenant":"free"}`, 200)
	p.stop()
	return state
}

// copied returns a copy of a state folder.
func copied(t *testing.T, state string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "state")
	must(t, os.CopyFS(dir, os.DirFS(state)), os.Chmod(filepath.Join(dir, "admin-token"), 0o600))
	return dir
}

const allowanceOf2 = "budgets: {on_failure: allowance, allowance: {requests_per_minute: 2}}\n"

// Whatever file of the state folder is damaged or unreadable, the process starts, serves tenants
// without limits, and reports the problem in the log or at /readyz.
func TestNoDamagedFileEndsTheStart(t *testing.T) {
	t.Parallel()
	state := usedState(t)
	var names []string
	must(t, filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(state, path); err == nil && path != state && !strings.HasSuffix(name, "-shm") {
			names = append(names, name)
		}
		return err
	}))
	if len(names) < 9 {
		t.Fatalf("the state folder has %q", names)
	}
	for _, name := range names {
		for how, damage := range map[string]func(path string, text []byte) error{
			"flipped": func(path string, text []byte) error {
				text[len(text)/2] ^= 4
				return os.WriteFile(path, text, 0o600)
			},
			"zeros": func(path string, text []byte) error { return os.WriteFile(path, make([]byte, len(text)), 0o600) },
			"not to be read": func(path string, text []byte) error {
				must(t, os.RemoveAll(path))
				if text == nil { // a folder
					return os.WriteFile(path, nil, 0o600)
				}
				return os.MkdirAll(filepath.Join(path, "x"), 0o700)
			},
		} {
			copied := copied(t, state)
			path := filepath.Join(copied, name)
			text, err := os.ReadFile(path)
			if err != nil { // a folder
				text = nil
			}
			if len(text) == 0 && how != "not to be read" {
				continue
			}
			must(t, damage(path, text))
			p := serve(t, "--config", limitedAndFree(t, copied, allowanceOf2), "--state", copied)
			if status := p.as(t, umbraKey); status != http.StatusOK {
				t.Errorf("%s, %s: without limits %d", name, how, status)
			}
			_, ready := get(t, p.admin+"/readyz")
			p.stop()
			want := filepath.Base(copied) + "/" + strings.TrimSuffix(name, "-wal")
			switch {
			case name == "modes.json":
				want = "mode: what was set before the start is lost"
			case strings.HasPrefix(name, "segments/"):
				want = filepath.Base(name)
			case how != "not to be read" && (name == "knowledge.db-wal" || how == "flipped" && (name == "knowledge.db" || name == "admin-token")):
				continue // another token, or a place that is not read
			}
			if said := p.out.until(t, "") + ready; !strings.Contains(said, want) {
				t.Errorf("%s, %s: nothing was said: %s", name, how, said)
			}
		}
	}
}

// One flipped bit in the ledger of budgets: tenants with limits are treated as budgets.on_failure
// says, the others are served, and the file is kept until someone removes it.
func TestFlippedBitInTheLedger(t *testing.T) {
	t.Parallel()
	sound := usedState(t)
	for budgets, want := range map[string]struct {
		line     string
		statuses []int
	}{
		"":           {"tenants with limits are refused", []int{503, 503, 503}},
		allowanceOf2: {"tenants with limits get their allowance", []int{200, 200, 429}},
	} {
		state := copied(t, sound)
		segments, err := filepath.Glob(filepath.Join(state, "budgets", "budget-*.log"))
		if err != nil || len(segments) != 1 {
			t.Fatalf("%q, %v", segments, err)
		}
		text, err := os.ReadFile(segments[0])
		must(t, err)
		text[len(text)-1] ^= 1 // of the last record
		must(t, os.WriteFile(segments[0], text, 0o600))
		args := []string{"--config", limitedAndFree(t, state, budgets), "--state", state}
		serve(t, args...).stop() // a second start is like the first
		p := serve(t, args...)
		p.readyz(t, want.line)
		var statuses []int
		for range want.statuses {
			statuses = append(statuses, p.as(t, acmeKey))
		}
		if !slices.Equal(statuses, want.statuses) || p.as(t, umbraKey) != http.StatusOK {
			t.Errorf("%s: %d, want %d", budgets, statuses, want.statuses)
		}
		if said := p.readyz(t, `"status":"degraded"`); !strings.Contains(said, filepath.Base(segments[0])+".damaged") {
			t.Errorf("readyz: %s", said)
		}
		kept, err := os.ReadFile(segments[0] + ".damaged")
		if err != nil || string(kept) != string(text) {
			t.Errorf("the damaged file is not kept: %v", err)
		}
		must(t, os.Remove(segments[0]+".damaged"))
		p.out.until(t, "over: budgets: the state folder cannot be used")
		if status := p.as(t, acmeKey); status != http.StatusOK {
			t.Errorf("%s: then %d", budgets, status)
		}
		if said := p.readyz(t, "status"); strings.Contains(said, "budgets") {
			t.Errorf("readyz: %s", said)
		}
	}
}
