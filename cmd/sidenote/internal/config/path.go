package config

import (
	"path/filepath"
	"slices"
	"strings"
)

// locate resolves the path at key. A path in a file is relative to that file, and ~ is the user's
// home folder.
func (c loader) locate(key, path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		if c.home == "" {
			c.problem(key, "%q begins with ~ and HOME is not set; write the whole path", path)
			return path
		}
		return filepath.Join(c.home, path[1:])
	}
	if p := c.Place(key); p.Line > 0 {
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(p.File), path)
		}
		return filepath.Clean(path)
	}
	return path
}

// locateFolders resolves the paths of bases, and of their programs that are no mere names.
func (c loader) locateFolders() {
	for _, name := range sortedKeys(c.Knowledge) {
		k, key := c.Knowledge[name], "knowledge."+string(name)
		if k.Path != "" {
			k.Path = c.locate(key+".path", k.Path)
		}
		if len(k.OCR) > 0 && strings.Contains(k.OCR[0], "/") {
			k.OCR[0] = c.locate(key+".ocr", k.OCR[0])
		}
		c.Knowledge[name] = k
	}
}

// locateAudit resolves the path of the audit.
func (c loader) locateAudit() {
	if c.Audit.File != "" {
		c.Audit.File = c.locate("audit.file", c.Audit.File)
	}
}

// locateState sets a state folder that is not configured to that of the XDG Base Directory
// Specification (https://specifications.freedesktop.org/basedir-spec/latest/).
func (c loader) locateState(env func(string) (string, bool)) {
	if c.State.Path == StateMemory {
		return
	}
	if c.State.Path != "" {
		c.State.Path = c.locate("state.path", c.State.Path)
		return
	}
	c.State.Default = true
	if dir, ok := env("XDG_STATE_HOME"); ok && filepath.IsAbs(dir) { // the specification says to ignore a relative one
		c.State.Path = filepath.Join(dir, "sidenote")
	} else if c.home != "" {
		c.State.Path = filepath.Join(c.home, ".local", "state", "sidenote")
	} else {
		c.State.Path = StateMemory
	}
}

// checkState refuses to follow a state in memory, which no other process can write.
func (c checker) checkState() {
	if c.State.Follow && c.State.Path == StateMemory {
		c.problem("state.follow", "goes with a folder that another process writes; state is in memory")
	}
}

// MovePaths replaces each resolved path by move(path).
func (c *Config) MovePaths(move func(path string) string) {
	c.State.Path, c.Audit.File = move(c.State.Path), move(c.Audit.File)
	c.Admin.Tokens = slices.Clone(c.Admin.Tokens)
	for i := range c.Admin.Tokens {
		c.Admin.Tokens[i].File.Path = move(c.Admin.Tokens[i].File.Path)
	}
	for name, k := range c.Knowledge {
		k.Path = move(k.Path)
		c.Knowledge[name] = k
	}
	for name, i := range c.Identity.JWT {
		i.JWKSFile = move(i.JWKSFile)
		c.Identity.JWT[name] = i
	}
	served := []*TLS{&c.Admin.TLS, &c.Telemetry.TLS, &c.MCP.TLS}
	for i := range c.Listen {
		served = append(served, &c.Listen[i].TLS)
	}
	for _, l := range served {
		for _, path := range []*string{&l.Cert, &l.Key, &l.ClientCA} {
			*path = move(*path)
		}
	}
	c.ModelsFile.Path = move(c.ModelsFile.Path)
}
