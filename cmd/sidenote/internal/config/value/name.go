package value

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A Name names a policy, tenant, base or upstream: [a-z0-9_-]{1,64}.
type Name string

// UnmarshalText refuses what is not a name.
func (n *Name) UnmarshalText(text []byte) error {
	if !ValidName(string(text)) {
		return fmt.Errorf("%q is not a name; use 1 to 64 of a-z 0-9 _ -", text)
	}
	*n = Name(text)
	return nil
}

// ValidName tells whether a text is a Name. It is never changed.
var ValidName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`).MatchString

// A Model is the name of one model, as an API knows it.
type Model string

// UnmarshalText refuses what is no name of one model.
func (m *Model) UnmarshalText(text []byte) error {
	s := string(text)
	if len(s) > 256 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '\x7f' || r == '*' }) {
		return fmt.Errorf("%.64q is not the name of a model; write it as in gpt-5-nano", s)
	}
	*m = Model(s)
	return nil
}

// A Glob is a doublestar pattern on slash-separated paths.
type Glob string

// UnmarshalText refuses what is not a pattern.
func (g *Glob) UnmarshalText(text []byte) error {
	if !doublestar.ValidatePattern(string(text)) {
		return fmt.Errorf("%q is not a pattern; write it as in **/*.md", text)
	}
	*g = Glob(text)
	return nil
}
