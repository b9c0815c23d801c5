package config

import "path/filepath"

// locateState completes where the state is kept: without a word about it, where the
// XDG Base Directory Specification puts it
// (https://specifications.freedesktop.org/basedir-spec/latest/).
func (c *Config) locateState(env func(string) (string, bool)) {
	if c.State.Path == StateMemory {
		return
	}
	if c.State.Path != "" {
		c.State.Path = c.locate("state.path", c.State.Path)
		return
	}
	c.State.Usual = true
	if dir, ok := env("XDG_STATE_HOME"); ok && filepath.IsAbs(dir) { // a relative one is to be ignored
		c.State.Path = filepath.Join(dir, "sidenote")
	} else if c.home != "" {
		c.State.Path = filepath.Join(c.home, ".local", "state", "sidenote")
	} else {
		c.State.Path = StateMemory
	}
}

// checkState refuses to follow what nobody could write.
func (c *Config) checkState() {
	if c.State.Follow && c.State.Path == StateMemory {
		c.problem("state.follow", "goes with a folder that another process writes; state is in memory")
	}
}
