package engine

import "runtime/debug"

// Version is the module's version and the commit, as the go command
// stamped them.
func Version() (version, commit string) {
	version, commit = "(devel)", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, commit
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			commit += " (modified)"
		}
	}
	return version, commit
}
