package server

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"sidenote/retrieval/knowledge/store"
)

// Machine code is kept in an existing state folder, else in the user's cache folder, if any.
func TestCodeFolder(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	state, cached := t.TempDir(), filepath.Join(cache, "sidenote")
	for path, want := range map[string]string{
		state: store.CodeFolder(state), filepath.Join(state, "missing"): cached, store.Memory: cached, "": cached,
	} {
		if got := codeFolder(path); got != want {
			t.Errorf("state %q: code in %q, want %q", path, got, want)
		}
	}
	if runtime.GOOS != "linux" {
		return // other systems have other names for it
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if got := codeFolder(""); got != "" {
		t.Errorf("without a cache folder: %q", got)
	}
}
