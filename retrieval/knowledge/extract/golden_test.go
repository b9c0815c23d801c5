package extract_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"sidenote/retrieval/knowledge/extract"
	"sidenote/rewrite/goldentest"
)

// Each file contains a realistic file and its documents; for code, the parts with their
// declarations.
func TestGolden(t *testing.T) {
	goldentest.Each(t, "testdata", func(t *testing.T, a *goldentest.Archive) {
		a.Files = append(a.Files[:1], read(t, a.Files[0])...)
	})
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
