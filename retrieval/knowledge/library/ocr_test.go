//go:build unix

package library_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
)

// An image is read again by another OCR command, and by no command it is not read; other files are
// left alone.
func TestSyncByAnotherOCR(t *testing.T) {
	f := newFolder(t, map[string]string{"a.png": "a picture", "blank.png": "nothing", "b.md": "A bee."})
	l := opened(t, t.TempDir(), library.Options{})
	log := filepath.Join(t.TempDir(), "runs")
	for i, step := range []struct {
		says                       string
		written, unchanged, remove int
		runs                       int // in all
	}{
		{"An ant.", 2, 0, 0, 2}, {"An ant.", 0, 2, 0, 2}, {"An elk.", 1, 1, 0, 4}, {"", 0, 1, 1, 4}, {"An elk.", 1, 1, 0, 6},
	} {
		kb := folder.Folder{ID: "kb", Path: f.path}
		if step.says != "" {
			kb.OCR = []string{"sh", "-c", `echo run >> "$1"; if grep -q picture "$2"; then echo "$0"; fi`, step.says, log}
		}
		report, err := l.Sync(t.Context(), kb, nil)
		f.must(err)
		raw, err := os.ReadFile(log)
		f.must(err)
		if runs := strings.Count(string(raw), "run"); runs != step.runs || report.Written != step.written || report.Unchanged != step.unchanged || report.Removed != step.remove {
			t.Errorf("step %d: %d runs, %+v", i, runs, report)
		}
		if step.says == "" {
			continue
		}
		if d, err := l.Document(t.Context(), "kb", "a.png"); err != nil || d.Chunks[0].Text != step.says {
			t.Errorf("step %d: %+v, %v", i, d, err)
		}
	}
}
