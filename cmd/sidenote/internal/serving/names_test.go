package serving_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/serving"
)

// Events count for the files of a configuration, for the folders and links on the way to them, and
// for names that a pattern matches, by whatever links they are spelled. Events for neighbouring
// files do not count.
func TestOnlyOwnNamesCount(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	err = errors.Join(
		os.MkdirAll(in("mounted/..1"), 0o700), os.WriteFile(in("mounted/..1/sidenote.yaml"), nil, 0o600),
		os.Symlink("..1", in("mounted/..data")), os.Symlink("..data/sidenote.yaml", in("mounted/sidenote.yaml")),
		os.Symlink(in("mounted"), in("conf")), os.Symlink("loop", in("loop")),
	)
	if err != nil {
		t.Fatal(err)
	}
	counts := serving.OwnName(in("conf/sidenote.yaml"), in("conf/tenants.d/*.yaml"), in("conf/teams/*/*.yaml"), in("secrets/key"), in("loop/x"))
	for name, want := range map[string]bool{
		"conf":                      true, // a link
		"conf/sidenote.yaml":        true,
		"mounted":                   true,
		"mounted/sidenote.yaml":     true, // a link
		"mounted/..data":            true, // the link that Kubernetes replaces
		"mounted/..1":               true,
		"mounted/..1/sidenote.yaml": true,
		"conf/tenants.d":            true, // does not exist yet
		"conf/tenants.d/a.yaml":     true,
		"mounted/tenants.d/a.yaml":  true,
		"conf/teams/red":            true,
		"mounted/teams/red/a.yaml":  true,
		"secrets":                   true,
		"secrets/key":               true,
		"loop":                      true,

		"conf/sidenote.yaml~":         false,
		"conf/..2":                    false,
		"mounted/.sidenote.yaml.swp":  false,
		"mounted/..2":                 false,
		"mounted/serve.log":           false,
		"mounted/state":               false,
		"mounted/..1/other.yaml":      false,
		"conf/tenants.d/README":       false,
		"conf/tenants.d/a.yaml/b":     false,
		"mounted/teams/red/notes.txt": false,
		"secrets/other":               false,
		"elsewhere/sidenote.yaml":     false,
	} {
		if got := counts(in(name)); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// A file that is new in the configuration is watched from the first reading that names it, and a
// change during that reading is not lost.
func TestNewFilesCount(t *testing.T) {
	s := newStage(t, whole())
	load, first := s.Load, true
	s.Load = func(seen func(string)) (*config.Config, error) {
		cfg, err := load(seen)
		if err == nil && cfg.Upstream.APIKey.Value.Reveal() == "sk-one" && first {
			first = false
			s.write(t, "key2", "sk-two")
		}
		return cfg, err
	}
	s.write(t, "key2", "sk-one")
	s.write(t, "sidenote.yaml", strings.Replace(whole()["sidenote.yaml"], "file: key", "file: key2", 1))
	s.CatchUp(t.Context())
	if key := s.Running().Upstream.APIKey.Value.Reveal(); key != "sk-two" {
		t.Errorf("the key is %s", key)
	}
	s.serve(t, nil)
	s.write(t, "key2", "sk-three")
	s.untilKey(t, "sk-three")
}

// The files of a folder that replaces another through a link count.
func TestReplacedFolderCounts(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) { (&stage{dir: dir}).write(t, name, text) }
	for name, text := range whole() {
		put(filepath.Join("1", name), text)
		put(filepath.Join("2", name), text)
	}
	link, spare := filepath.Join(dir, "conf"), filepath.Join(dir, "spare")
	if err := errors.Join(os.Symlink("1", link), os.Symlink("2", spare)); err != nil {
		t.Fatal(err)
	}
	s := newStageIn(t, link)
	s.serve(t, nil)
	put("1/key", "sk-one")
	s.untilKey(t, "sk-one")
	put("2/key", "sk-one")
	if err := os.Rename(spare, link); err != nil {
		t.Fatal(err)
	}
	put("2/key", "sk-two")
	s.untilKey(t, "sk-two")
	put("2/key", "sk-three")
	s.untilKey(t, "sk-three")
}

// The folder of a file that a reload names for the first time is watched from then on.
func TestFoldersOfNewFilesAreWatched(t *testing.T) {
	s := newStage(t, whole())
	s.write(t, "secrets/key", "sk-one")
	s.serve(t, nil)
	s.write(t, "key", "sk-zero")
	s.untilKey(t, "sk-zero")
	s.write(t, "sidenote.yaml", strings.Replace(whole()["sidenote.yaml"], "file: key", "file: secrets/key", 1))
	s.untilKey(t, "sk-one")
	s.write(t, "secrets/key", "sk-two")
	s.untilKey(t, "sk-two")
}

// untilKey waits until the running upstream has the API key want.
func (s *stage) untilKey(t *testing.T, want string) {
	t.Helper()
	for late := time.After(20 * time.Second); s.Running().Upstream.APIKey.Value.Reveal() != want; {
		select {
		case <-s.more:
		case <-late:
			t.Fatalf("the key is not %s", want)
		}
	}
}
