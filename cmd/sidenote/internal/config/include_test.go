package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// files writes files below a new folder, and returns it.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An include that brings in no file would take its tenants out of the
// configuration, and then everybody is the default tenant.
func TestM01IncludeThatMatchesNothing(t *testing.T) {
	const up = "upstream: https://u.test\n"
	for include, want := range map[string]string{
		"[tenants.d/*.yaml]":                   `etc/c.yaml:2:11: include[0]: no file matches "tenants.d/*.yaml"; correct it, or write {path: tenants.d/*.yaml, optional: true}`,
		"[{path: tenants.d/*.yaml}]":           `etc/c.yaml:2:11: include[0]: no file matches "tenants.d/*.yaml"; correct it, or write {path: tenants.d/*.yaml, optional: true}`,
		"[{path: 'a?.yaml', optional: false}]": `etc/c.yaml:2:11: include[0]: no file matches "a?.yaml"; correct it, or write {path: a?.yaml, optional: true}`,
		"[there.yaml, one.yaml]":               `etc/c.yaml:2:23: include[1]: file "one.yaml" not found`,
		"[{path: '[', optional: true}]":        `etc/c.yaml:2:11: include[0]: "[" is not a pattern`,
		"[{path: '*.yml', optional: maybe}]": `etc/c.yaml:2:11: include[0]: no file matches "*.yml"; correct it, or write {path: *.yml, optional: true}` + "\n" +
			`etc/c.yaml:2:37: include[0].optional: "maybe" is neither true nor false`,
		"[{optional: true}]":                         `etc/c.yaml:2:11: include[0].path: is missing`,
		"[{path: tenants.d/*.yaml, optional: true}]": "<nil>",
		"[{path: one.yaml, optional: true}]":         "<nil>",
		"[there.yaml]":                               "<nil>",
	} {
		d := disk{"etc/c.yaml": up + "include: " + include, "etc/there.yaml": "models: [{match: x, window: 1k}]\n"}
		if _, err := config.Load(d.source("etc/c.yaml")); fmt.Sprint(err) != want {
			t.Errorf("%s:\ngot  %v\nwant %s", include, err, want)
		}
	}
}

// A folder that cannot be read is not one that is empty.
func TestM01IncludeThatCannotBeRead(t *testing.T) {
	dir := files(t, map[string]string{"c.yaml": "upstream: https://u.test\ninclude: [{path: 'loop/*.yaml', optional: true}]\n"})
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Skip(err)
	}
	_, err := config.Load(config.Source{Path: filepath.Join(dir, "c.yaml")})
	var problems config.Problems
	if !errors.As(err, &problems) || !strings.Contains(err.Error(), `c.yaml:2:11: include[0]: "loop/*.yaml" cannot be read: `) {
		t.Errorf("got %v", err)
	}
}
