// Package goldentest compares results of tests with files. With the flag -update, it writes the
// files instead, and their diff is the review.
package goldentest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the golden files")

// Text compares got with the content of a file.
func Text(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// An Archive is a golden file in txtar format: a comment that says why it exists, what a test is
// given, and the results.
type Archive struct {
	txtar.Archive
	Name string // of the file, without extension

	set map[string]bool
}

// Load reads the archives in a folder.
func Load(t testing.TB, folder string) (list []*Archive) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files in %s: %v", folder, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, &Archive{Archive: *archive, Name: strings.TrimSuffix(filepath.Base(file), ".txtar"), set: map[string]bool{}})
	}
	return list
}

// Each runs a subtest for each archive in a folder: do sets the results, and the archive with them
// is compared with the file. A file want* that do did not set is out of date.
func Each(t *testing.T, folder string, do func(t *testing.T, a *Archive)) {
	t.Helper()
	for _, a := range Load(t, folder) {
		t.Run(a.Name, func(t *testing.T) {
			if len(bytes.TrimSpace(a.Comment)) == 0 {
				t.Fatal("a golden file says on top why it exists")
			}
			do(t, a)
			a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "want") && !a.set[f.Name] })
			Text(t, filepath.Join(folder, a.Name+".txtar"), string(txtar.Format(&a.Archive)))
		})
	}
}

// Get returns the content of a file, nil if there is none.
func (a *Archive) Get(name string) []byte {
	if at := a.index(name); at >= 0 {
		return a.Files[at].Data
	}
	return nil
}

// Set replaces the content of a file, or appends a file.
func (a *Archive) Set(name, text string) {
	a.set[name] = true
	if at := a.index(name); at >= 0 {
		a.Files[at].Data = []byte(text)
		return
	}
	a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(text)})
}

func (a *Archive) index(name string) int {
	return slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
}
