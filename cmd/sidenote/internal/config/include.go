package config

import (
	"errors"
	"io/fs"
	"strings"
)

// An Include names more files, and what they may do beyond the defaults of delegated.go.
type Include struct {
	Path      string   `yaml:"path" need:"true"` // a pattern, relative to this file
	Optional  bool     `yaml:"optional"`         // no file needs to match
	May       []string `yaml:"may" of:"upstreams|secrets|paths|stores|embed|tokens|all"`
	Knowledge []Name   `yaml:"knowledge"` // bases of other files that their policies and tenants may name
}

// included lists the files of an include. No match is a problem: the tenants of a missing file
// would be unknown callers, who may be accepted under another policy.
func (c loader) included(src Source, i int) []string {
	key, pattern := "include["+itoa(i)+"]", c.Include[i].Path
	if pattern == "" {
		return nil // reported as missing
	}
	paths, err := src.Glob(c.locate(key+".path", pattern))
	var unreadable *fs.PathError
	switch {
	case errors.As(err, &unreadable):
		c.problem(key, "%q cannot be read: %v", pattern, unreadable.Err)
	case err != nil:
		c.problem(key, "%q is not a pattern", pattern)
	case len(paths) > 0 || c.Include[i].Optional:
	case strings.ContainsAny(pattern, IsPattern):
		c.problem(key, "no file matches %q; correct it, or write {path: %s, optional: true}", pattern, pattern)
	default:
		c.problem(key, "file %q not found", pattern)
	}
	return paths
}
