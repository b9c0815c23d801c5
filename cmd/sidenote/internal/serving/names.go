package serving

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
)

// ownNames are the file names that affect a configuration: those of its files, of the folders and
// links on the way to them, and those that its patterns match. Events for other names are ignored.
type ownNames struct {
	list     int // the version of the file list, see Reloader.listed; 0: none
	names    map[string]bool
	patterns [][]string // split at the slashes
}

// update returns the names for the files of r's last reading.
func (o *ownNames) update(r *Reloader) *ownNames {
	if paths, list := r.listed(); list != o.list {
		*o = namesOf(paths)
		o.list = list
	}
	return o
}

// namesOf returns the names for files and patterns.
func namesOf(paths []string) ownNames {
	o := ownNames{names: map[string]bool{}}
	for _, path := range paths {
		path, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		fixed, rest := path, ""
		for strings.ContainsAny(fixed, config.IsPattern) {
			fixed, rest = filepath.Dir(fixed), filepath.Join(filepath.Base(fixed), rest)
		}
		for _, spelling := range spellings(fixed) {
			for name := spelling; !o.names[name]; name = filepath.Dir(name) {
				o.names[name] = true
			}
			if rest != "" {
				o.patterns = append(o.patterns, split(filepath.Join(spelling, rest)))
			}
		}
	}
	return o
}

// maxLinks limits the links that are followed on the way to a file.
const maxLinks = 40

// spellings returns a path and the paths that result from following its links one by one. A folder
// may be watched under any of them.
func spellings(path string) []string {
	all := []string{path}
	for len(all) <= maxLinks {
		next, ok := followFirst(all[len(all)-1])
		if !ok || slices.Contains(all, next) {
			break
		}
		all = append(all, next)
	}
	return all
}

// followFirst replaces the first link of a path by its target.
func followFirst(path string) (followed string, ok bool) {
	for end := len(filepath.VolumeName(path)) + 1; end < len(path); end++ {
		next := strings.IndexByte(path[end:], filepath.Separator)
		if end += next; next < 0 {
			end = len(path)
		}
		target, err := os.Readlink(path[:end])
		if err != nil {
			continue // not a link, or missing
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path[:end]), target)
		}
		return filepath.Join(target, path[end:]), true
	}
	return "", false
}

// has reports whether an event for a name may change the configuration.
func (o *ownNames) has(name string) bool {
	if o.names[name] {
		return true
	}
	for _, pattern := range o.patterns {
		if matchesStart(pattern, split(name)) {
			return true
		}
	}
	return false
}

// matchesStart reports whether a path matches a pattern or its beginning, so that it may be a
// folder on the way to a match.
func matchesStart(pattern, path []string) bool {
	if len(path) > len(pattern) {
		return false
	}
	for i, part := range path {
		if ok, err := filepath.Match(pattern[i], part); err != nil || !ok {
			return false
		}
	}
	return true
}

func split(path string) []string { return strings.Split(filepath.ToSlash(path), "/") }
