package pdf

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/tetratelabs/wazero"
)

// openCache returns a cache of machine code in a folder, or in memory if the folder cannot be used
// or other users could write to it.
func openCache(dir string) wazero.CompilationCache {
	if dir != "" && private(dir) {
		removeOthers(dir)
		if cache, err := wazero.NewCompilationCacheWithDir(filepath.Join(dir, release())); err == nil {
			return cache
		}
	}
	return wazero.NewCompilationCache()
}

// compiledIn reports whether a folder contains machine code. Damaged code is removed later.
func compiledIn(dir string) bool {
	if dir == "" {
		return false
	}
	found, _ := filepath.Glob(filepath.Join(dir, release(), "*", "*"))
	return len(found) > 0
}

// private creates a folder if necessary, and reports whether it is accessible to this user only:
// its machine code is executed.
func private(dir string) bool {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false
	}
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && ownersAlone(info)
}

// release returns the versions of pdfium and wazero: code of other versions cannot be used.
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

// removeOthers removes the code of other releases, 20 MB each.
func removeOthers(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() && e.Name() != release() && strings.HasSuffix(e.Name(), "-code") {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// clearCache removes the code in a folder, if possible.
func clearCache(dir string) {
	if private(dir) {
		_ = os.RemoveAll(filepath.Join(dir, release()))
	}
}
