package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// mounted mounts a small disk on a folder for the duration of the test.
func mounted(t *testing.T, dir, size string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("no disk can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// A state folder on a disk that refuses writes is read; it is written again when the disk accepts
// writes.
func TestReadOnlyState(t *testing.T) {
	t.Parallel()
	docs, state, up := handbook(t), filepath.Join(t.TempDir(), "state"), newRecorder(t).URL
	mounted(t, state, "16m")
	args := []string{"--upstream", up, "--knowledge", "kb=" + docs, "--state", state}
	writable := func(flags uintptr) { must(t, syscall.Mount("none", state, "tmpfs", syscall.MS_REMOUNT|flags, "")) }
	writable(syscall.MS_RDONLY)
	empty := serve(t, args...)
	empty.readyz(t, "read-only file system")
	if s := empty.chats(t); !strings.HasPrefix(s, "untouched; reason=state") {
		t.Errorf("%s", s)
	}
	writable(0)
	empty.comes(t, "parental leave", "leave.md")
	empty.stop()

	writable(syscall.MS_RDONLY)
	p := serve(t, args...)
	if said := p.readyz(t, "read-only file system"); !strings.Contains(said, `"status":"degraded"`) || strings.Contains(said, "knowledge kb") {
		t.Errorf("readyz: %s", said)
	}
	if s := p.chats(t); !strings.HasPrefix(s, "injected; sources=1") {
		t.Errorf("%s", s)
	}
	p.asks(t, "PUT", "/v1/knowledge/kb/documents/a", `{"text":"x"}`, 503, `"code":"state_unavailable"`, "read-only file system")
	write(t, docs, "pets.md", "# Pets\n\nLlamas are welcome on Fridays.\n")
	writable(0)
	p.comes(t, "llamas", "pets.md")
	p.readyz(t, `{"status":"ready"}`)
}

// A base that does not fit on the disk is left out and the existing one stays; with enough space it
// is read.
func TestFullState(t *testing.T) {
	t.Parallel()
	docs, small, state := t.TempDir(), handbook(t), filepath.Join(t.TempDir(), "state")
	mounted(t, state, "1m")
	args := []string{"--upstream", newRecorder(t).URL, "--knowledge", "kb=" + small, "--state", state}
	serve(t, args...).stop()
	write(t, docs, "zebras.md", "# Zebras\n\nZebras graze.\n"+strings.Repeat("They run on the plains of the south, in herds of many. ", 20_000))
	p := serve(t, append(args, "--knowledge", "big="+docs)...)
	if said := p.readyz(t, "knowledge big: "); !strings.Contains(said, `"status":"degraded"`) || !strings.Contains(said, "no space left") || strings.Contains(said, "knowledge kb") {
		t.Errorf("readyz: %s", said)
	}
	p.out.until(t, "no space left")
	if s := p.chats(t); !strings.HasPrefix(s, "injected; ") {
		t.Errorf("%s", s)
	}
	must(t, syscall.Mount("none", state, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
	write(t, docs, "more.md", "# More\n\nOkapis hide.\n") // not to wait for the next attempt
	p.comes(t, "okapis", "more.md")
	p.readyz(t, `{"status":"ready"}`)
}

// With a full disk at the start, requests are still served.
func TestFullFromTheStart(t *testing.T) {
	t.Parallel()
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	mounted(t, state, "64k")
	ballast := filepath.Join(state, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 60<<10), 0o600))
	p := serve(t, "--upstream", newRecorder(t).URL, "--knowledge", "kb="+docs, "--state", state)
	p.readyz(t, "no space left")
	if s := p.chats(t); !strings.HasPrefix(s, "untouched; reason=state") {
		t.Errorf("%s", s)
	}
	must(t, os.Remove(ballast), syscall.Mount("none", state, "tmpfs", syscall.MS_REMOUNT, "size=16m"))
	p.comes(t, "parental leave", "leave.md")
	p.readyz(t, `{"status":"ready"}`)
}

// On a full disk tenants with limits are treated as budgets.on_failure says, and /readyz reports
// it. With space again, counting continues, including what was granted meanwhile.
func TestFullStateUnderBudgets(t *testing.T) {
	t.Parallel()
	for budgets, want := range map[string]struct {
		line   string
		status int
	}{
		"":           {"tenants with limits are refused", 503},
		allowanceOf2: {"tenants with limits get their allowance", 429},
	} {
		state := filepath.Join(t.TempDir(), "state")
		mounted(t, state, "2m")
		p := serve(t, "--config", limitedAndFree(t, state, budgets), "--state", state)
		if status := p.as(t, acmeKey); status != 200 {
			t.Errorf("with room: %d", status)
		}
		p.readyz(t, `{"status":"ready"}`)
		ballast, err := os.Create(filepath.Join(state, "ballast"))
		must(t, err)
		for block := make([]byte, 4096); err == nil; {
			_, err = ballast.Write(block)
		}
		must(t, ballast.Close())
		if said := p.readyz(t, want.line); !strings.Contains(said, `"status":"degraded"`) || !strings.Contains(said, "no space left") {
			t.Errorf("readyz: %s", said)
		}
		granted, status := 0, 200
		for ; status == 200; granted++ { // the last block of the ledger has some room
			status = p.as(t, acmeKey)
		}
		if status != want.status || granted > 50 || p.as(t, acmeKey) != want.status {
			t.Errorf("%s: %d after %d requests, want %d", budgets, status, granted, want.status)
		}
		if status := p.as(t, umbraKey); status != 200 {
			t.Errorf("without limits: %d", status)
		}
		must(t, os.Remove(ballast.Name()))
		p.readyz(t, `{"status":"ready"}`)
		if status := p.as(t, acmeKey); status != 200 {
			t.Errorf("with room again: %d", status)
		}
		p.stop()
	}
}
