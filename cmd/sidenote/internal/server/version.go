package server

import (
	"cmp"
	"runtime/debug"
)

// Set by the linker (-X) where the Go command cannot see the repository, as in the image.
var stampedVersion, stampedCommit string

// Version returns the version of the module and the commit it was built from: those that the linker
// was given, or those that the Go command stamped. What neither knows is "(devel)" and "unknown".
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

// revision returns the commit that the Go command stamped, "" if it stamped none.
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
