package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A Name names a policy, tenant, base or upstream: [a-z0-9_-]{1,64}.
type Name string

// UnmarshalText refuses invalid names.
func (n *Name) UnmarshalText(text []byte) error {
	if !validName(string(text)) {
		return fmt.Errorf("%q is not a name; use 1 to 64 of a-z 0-9 _ -", text)
	}
	*n = Name(text)
	return nil
}

// validName reports whether a text is a valid Name. It is never changed.
var validName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`).MatchString

// A model is the name of one model in an API.
type model string

// UnmarshalText refuses patterns, spaces and long names.
func (m *model) UnmarshalText(text []byte) error {
	s := string(text)
	if len(s) > 256 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '\x7f' || r == '*' }) {
		return fmt.Errorf("%.64q is not the name of a model; write it as in gpt-5-nano", s)
	}
	*m = model(s)
	return nil
}

// A glob is a doublestar pattern on slash-separated paths.
type glob string

// UnmarshalText refuses invalid patterns.
func (g *glob) UnmarshalText(text []byte) error {
	if !doublestar.ValidatePattern(string(text)) {
		return fmt.Errorf("%q is not a pattern; write it as in **/*.md", text)
	}
	*g = glob(text)
	return nil
}
