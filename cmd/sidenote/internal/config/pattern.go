package config

import (
	"fmt"
	"slices"
	"strings"
)

// A modelPattern is a model name, or a prefix that ends in *.
type modelPattern string

// UnmarshalText refuses patterns that can match no name.
func (m *modelPattern) UnmarshalText(text []byte) error {
	s := string(text)
	if strings.Contains(strings.TrimSuffix(s, "*"), "*") || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '\x7f' }) {
		return fmt.Errorf("%q is not a model; write a name, or a prefix and one * at its end, as in gpt-5*", s)
	}
	*m = modelPattern(s)
	return nil
}

// covers reports whether m matches every model that n matches.
func (m modelPattern) covers(n modelPattern) bool {
	prefix, many := strings.CutSuffix(string(m), "*")
	return m == n || many && strings.HasPrefix(string(n), prefix)
}

// bothPatterns returns patterns for the models that both lists match; nil matches all. If two
// patterns match the same name, one covers the other, so the result is exact. It is empty if no
// model is in both.
func bothPatterns(a, b []modelPattern) []modelPattern {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	both := []modelPattern{}
	add := func(m modelPattern) {
		if !slices.Contains(both, m) {
			both = append(both, m)
		}
	}
	for _, m := range a {
		for _, n := range b {
			switch {
			case m.covers(n):
				add(n)
			case n.covers(m):
				add(m)
			}
		}
	}
	return both
}
