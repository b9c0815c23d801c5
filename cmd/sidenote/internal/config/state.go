package config

import "path/filepath"

// locateState fills in the state folder that nobody configured: the one of the XDG Base
// Directory Specification
// (https://specifications.freedesktop.org/basedir-spec/latest/).
func (c loader) locateState(env func(string) (string, bool)) {
	if c.State.Path == StateMemory {
		return
	}
	if c.State.Path != "" {
		c.State.Path = c.locate("state.path", c.State.Path)
		return
	}
	c.State.Default = true
	if dir, ok := env("XDG_STATE_HOME"); ok && filepath.IsAbs(dir) { // a relative one is to be ignored
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
