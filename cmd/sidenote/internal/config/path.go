package config

import (
	"path/filepath"
	"strings"
)

// locate returns the full form of the path at key. A path in a file is relative to that
// file, and ~ is the user's home folder.
func (c loader) locate(key, path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		if c.home == "" {
			c.problem(key, "%q begins with ~ and HOME is not set; write the whole path", path)
			return path
		}
		return filepath.Join(c.home, path[1:])
	}
	if p := c.Place(key); p.Line > 0 {
		return relativeTo(p.File, path)
	}
	return path
}

// locateFolders completes the paths of bases.
func (c loader) locateFolders() {
	for _, name := range sortedKeys(c.Knowledge) {
		if k := c.Knowledge[name]; k.Path != "" {
			k.Path = c.locate("knowledge."+string(name)+".path", k.Path)
			c.Knowledge[name] = k
		}
	}
}

// relativeTo resolves path against the folder of the file that names it.
func relativeTo(file, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(file), path)
}
