package value

import (
	"fmt"
	"regexp"

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
