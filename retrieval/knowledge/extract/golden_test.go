package extract_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"sidenote/retrieval/knowledge/extract"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Each file contains a realistic file and its documents; for code, the parts with their
// declarations. Run with -update to write the results.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("golden files: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := txtar.Archive{Comment: a.Comment, Files: append(a.Files[:1:1], read(t, a.Files[0])...)}
			if *update {
				if err := os.WriteFile(file, txtar.Format(&got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(a)), string(txtar.Format(&got))); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
		})
	}
}

// read returns the documents of a file, in the form of golden files.
func read(t *testing.T, in txtar.File) (out []txtar.File) {
	t.Helper()
	format := extract.Of(in.Name)
	if format == extract.Unknown && extract.IsScript(in.Data) {
		format = extract.SourceCode
	}
	documents, err := extract.Read(format, in.Name, in.Data)
	for _, d := range documents {
		if d.Form == extract.Code {
			out = append(out, outline(d)...)
			continue
		}
		name := fmt.Sprintf("%s | %s", d.Key, d.Name)
		out = append(out, txtar.File{Name: strings.TrimSpace(name), Data: []byte(d.Text)})
	}
	if broken := (*extract.Broken)(nil); errors.As(err, &broken) {
		out = append(out, txtar.File{Name: "broken", Data: []byte(broken.Reason)})
	} else if err != nil {
		t.Fatal(err)
	}
	return out
}

// outline divides code as if a chunk could have 200 bytes.
func outline(d extract.Document) (out []txtar.File) {
	parts := extract.Outline(d.Lang, d.Text, func(text string) bool { return len(text) <= 200 })
	for i, p := range parts {
		end := len(d.Text)
		if i+1 < len(parts) {
			end = parts[i+1].Start
		}
		out = append(out, txtar.File{Name: strings.TrimSpace(fmt.Sprintf("| %s | %s", p.Name, strings.TrimSpace(p.Head))), Data: []byte(d.Text[p.Start:end])})
	}
	return out
}
