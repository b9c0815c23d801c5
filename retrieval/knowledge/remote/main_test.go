package remote_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"sidenote/retrieval/knowledge/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// private allows the servers of tests, which are on this machine.
var private = remote.Network{AllowPrivate: true}

// mirrorOf opens a mirror in a new folder.
func mirrorOf(t *testing.T, s remote.Source) *remote.Mirror {
	t.Helper()
	m, err := remote.OpenMirror(t.TempDir(), s.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}

func fetch(t *testing.T, s remote.Source, m *remote.Mirror) remote.Report {
	t.Helper()
	r, err := s.Fetch(t.Context(), m, nil)
	if err != nil {
		t.Fatalf("fetch: %v", err)
	}
	return r
}

// failing returns the error of a fetch, which must contain a text.
func failing(t *testing.T, s remote.Source, m *remote.Mirror, want string) remote.Report {
	t.Helper()
	r, err := s.Fetch(t.Context(), m, nil)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("fetch: %v, want %q", err, want)
	}
	return r
}

// filesOf returns the files of a mirror with their texts.
func filesOf(t *testing.T, m *remote.Mirror) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(m.Path(), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(m.Path(), name)
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			text, err = []byte("(broken link)"), nil
		}
		out[filepath.ToSlash(rel)] = string(text)
		return err
	})
	must(t, err)
	return out
}

// holds checks the names of the files of a mirror.
func holds(t *testing.T, m *remote.Mirror, want ...string) {
	t.Helper()
	if got := slices.Sorted(maps.Keys(filesOf(t, m))); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the mirror has %q, want %q", got, want)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
