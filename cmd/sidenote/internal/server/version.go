package server

import (
	"cmp"
	"runtime/debug"
)

// Set by the linker (-X) if the Go command cannot see the repository, as in the image.
var stampedVersion, stampedCommit string

// Version returns the module version and the commit of the build, as set by the linker or stamped
// by the Go command. Unknown values are "(devel)" and "unknown".
func Version() (version, commit string) {
	version, commit = stampedVersion, stampedCommit
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "(devel)"), cmp.Or(commit, "unknown")
	}
	if commit == "" {
		commit = revision(info.Settings)
	}
	return cmp.Or(version, info.Main.Version, "(devel)"), cmp.Or(commit, "unknown")
}

// revision returns the commit that the Go command stamped, or "".
func revision(settings []debug.BuildSetting) (commit string) {
	modified := ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " (modified)"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + modified
}
