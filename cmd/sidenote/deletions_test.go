package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval/knowledge/folder"
)

// readyz waits until /readyz answers 200 with the given text, and returns the answer.
func (p *process) readyz(t *testing.T, want string) string {
	t.Helper()
	late := time.After(time.Minute)
	for {
		code, body := get(t, p.admin+"/readyz")
		if code == 200 && strings.Contains(body, want) {
			return body
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			t.Fatalf("never said %s: %d, %s", want, code, body)
		}
	}
}

// unmounted empties a folder and returns a function that restores it.
func unmounted(t *testing.T, dir string) (back func()) {
	t.Helper()
	away := dir + ".away"
	must(t, os.Rename(dir, away), os.Mkdir(dir, 0o755))
	return func() { t.Helper(); must(t, os.Remove(dir), os.Rename(away, dir)) }
}

// A volume that is not mounted deletes no documents: not while it is watched, not after a restart,
// not by ingest. Reading continues when it is back.
func TestUnmountedVolume(t *testing.T) {
	t.Parallel()
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	args := []string{"--upstream", newRecorder(t).URL, "--knowledge", "kb=" + docs, "--state", state}
	const gone = "knowledge kb: 2 of 2 files are missing from "
	p := serve(t, args...)
	back := unmounted(t, docs)
	if said := p.readyz(t, gone+docs); !strings.Contains(said, `"status":"degraded"`) || !strings.Contains(said, "--accept-deletions") {
		t.Errorf("readyz: %s", said)
	}
	p.out.until(t, gone+docs)
	p.comes(t, "parental leave", "leave.md")
	p.asks(t, "GET", "/v1/knowledge/kb", "", 200, `"status":"failed"`, `"documents":2`)
	ingest := []string{"ingest", "--knowledge", "kb=" + docs, "--state", state}
	start(t, noEnv, ingest...).ends(t, exitFailed, "", "2 of 2 files are missing from "+docs)
	p.stop()

	start(t, noEnv, ingest...).ends(t, exitFailed, "", "2 of 2 files are missing from "+docs)
	again := serve(t, args...)
	again.readyz(t, gone+docs)
	again.comes(t, "parental leave", "leave.md")
	back()
	write(t, docs, "pets.md", "# Pets\n\nLlamas are welcome on Fridays.\n")
	again.comes(t, "llamas", "pets.md")
	again.readyz(t, `{"status":"ready"}`)
}

// Deletions that the user accepts are made, with and without a running serve.
func TestAcceptDeletions(t *testing.T) {
	t.Parallel()
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	args := []string{"--upstream", newRecorder(t).URL, "--knowledge", "kb=" + docs, "--state", state}
	ingest := []string{"ingest", "--knowledge", "kb=" + docs, "--state", state, "--accept-deletions"}
	p := serve(t, args...)
	back := unmounted(t, docs)
	p.readyz(t, "2 of 2 files are missing")
	start(t, noEnv, ingest...).ends(t, exitDone, "0 files, 0 chunks; 0 new, 0 changed, 0 unchanged, 2 removed", "handed over")
	p.readyz(t, `{"status":"ready"}`)
	back()
	p.comes(t, "parental leave", "leave.md")
	p.stop()

	unmounted(t, docs)
	start(t, noEnv, ingest...).ends(t, exitDone, "2 removed", "")
}

// A base may allow that its folder is emptied now and then; that does not make it another base.
func TestConfiguredDeletions(t *testing.T) {
	docs := handbook(t)
	for deletions, accept := range map[string]bool{"{path: %s}": false, "{path: %s, deletions: keep}": false, "{path: %s, deletions: accept}": true} {
		path := written(t, "sidenote.yaml", fmt.Sprintf("upstream: http://127.0.0.1:9\nknowledge: {kb: "+deletions+"}\n", docs))
		cfg, err := configFlags{Config: path}.load(&app{env: noEnv}, false)
		must(t, err)
		if configured := cfg.Folder("kb"); configured.AcceptDeletions != accept || configured.Origin() != (folder.Folder{Path: docs}).Origin() {
			t.Errorf("%s: %+v", deletions, configured)
		}
	}
}

// A folder that is emptied file by file counts as emptied, also across a restart.
func TestFileByFile(t *testing.T) {
	t.Parallel()
	docs, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	name := func(i int) string { return fmt.Sprintf("f%02d.md", i) }
	for i := range 40 {
		write(t, docs, name(i), fmt.Sprintf("# File %d\n\nLlama number w%dx.\n", i, i))
	}
	args := []string{"--upstream", newRecorder(t).URL, "--knowledge", "kb=" + docs, "--state", state}
	p := serve(t, args...)
	remove := func(from, to int) {
		for i := from; i < to; i++ {
			if err := os.Remove(filepath.Join(docs, name(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove(0, 12)
	p.out.until(t, "12 removed; now 28 files")
	remove(12, 20)
	p.out.until(t, "8 removed; now 20 files") // half of them
	remove(20, 21)
	p.readyz(t, "21 of 40 files are missing")
	p.comes(t, "w20x", name(20))
	p.stop()
	again := serve(t, args...)
	again.readyz(t, "21 of 40 files are missing")
	again.comes(t, "w20x", name(20))
	write(t, docs, name(0), "# File 0\n\nBack again.\n")
	again.readyz(t, `{"status":"ready"}`)
	if docs := again.finds(t, "w20x"); len(docs) != 0 {
		t.Errorf("found %v", docs)
	}
}
