package pdf

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/tetratelabs/wazero"
)

// openCache returns a cache of machine code that is kept in a folder, or in memory where
// the folder cannot be used or others could put code into it.
func openCache(dir string) wazero.CompilationCache {
	if dir != "" && private(dir) {
		removeOthers(dir)
		if cache, err := wazero.NewCompilationCacheWithDir(filepath.Join(dir, release())); err == nil {
			return cache
		}
	}
	return wazero.NewCompilationCache()
}

// compiledIn tells whether a folder has machine code. Where it turns out to be damaged, it is
// removed.
func compiledIn(dir string) bool {
	if dir == "" {
		return false
	}
	found, _ := filepath.Glob(filepath.Join(dir, release(), "*", "*"))
	return len(found) > 0
}

// private makes a folder if it is missing, and tells whether it is this user's alone: machine
// code in it is run.
func private(dir string) bool {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false
	}
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && ownersAlone(info)
}

// release names the versions of pdfium and wazero: code of others is of no use.
func release() string {
	var parts []string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if strings.HasSuffix(module.Path, "/go-pdfium") || strings.HasSuffix(module.Path, "/wazero") {
				parts = append(parts, filepath.Base(module.Path)+"-"+module.Version)
			}
		}
	}
	return strings.Join(append(parts, "code"), "-")
}

// removeOthers removes what other releases have left, 20 MB each.
func removeOthers(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() && e.Name() != release() && strings.HasSuffix(e.Name(), "-code") {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// clearCache removes what is kept in a folder, where it can.
func clearCache(dir string) {
	if private(dir) {
		_ = os.RemoveAll(filepath.Join(dir, release()))
	}
}
