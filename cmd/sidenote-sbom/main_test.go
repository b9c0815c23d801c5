package main

import (
	"bytes"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// The document names each module that is linked into a program, once, and its references are whole.
func TestDocumentListsEachModule(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("this program has no build information")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, again bytes.Buffer
	for _, to := range []*bytes.Buffer{&out, &again} {
		if err := run([]string{program, "v1.2"}, "1790000000", to); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != again.String() {
		t.Error("two runs give different documents")
	}
	var doc v2_3.Document
	if err := spdxjson.ReadInto(&out, &doc); err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(&doc); err != nil {
		t.Error(err)
	}
	urls := map[string]bool{}
	for _, p := range doc.Packages {
		for _, r := range p.PackageExternalReferences {
			urls[r.Locator] = true
		}
	}
	for _, m := range info.Deps {
		if !urls["pkg:golang/"+m.Path+"@"+strings.ReplaceAll(m.Version, "+", "%2B")] {
			t.Errorf("%s %s is missing", m.Path, m.Version)
		}
	}
	if len(doc.Packages) != len(info.Deps)+2 || len(info.Deps) < 1 || doc.Packages[0].PackageVersion != "v1.2" || doc.CreationInfo.Created != "2026-09-21T14:13:20Z" {
		t.Errorf("%d packages for %d modules, created %s", len(doc.Packages), len(info.Deps), doc.CreationInfo.Created)
	}
}

// Errors name what was given.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		args  []string
		epoch string
		want  string
	}{
		{nil, "", "want the name of a program"},
		{[]string{"x", "v1"}, "noon", `SOURCE_DATE_EPOCH is "noon"`},
		{[]string{"main.go", "v1"}, "", "main.go"},
	} {
		if err := run(c.args, c.epoch, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}
