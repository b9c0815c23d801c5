package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/rewrite"
)

// Skip says which requests are background calls of chat apps. In a file a list alone is Rules, and
// off alone means no rules at all.
type Skip struct {
	KnownApps string     `yaml:"known_apps" of:"on|off"` // the built-in rules
	Rules     []skipRule `yaml:"rules,omitempty"`        // in addition
}

// A skipRule recognizes requests by all of its conditions.
type skipRule struct {
	Name           Name        `yaml:"name" need:"true"`
	SystemMatches  pattern     `yaml:"system_matches,omitempty"`
	UserMatches    pattern     `yaml:"user_matches,omitempty"`
	MaxTokensBelow Count       `yaml:"max_tokens_below,omitempty" min:"2" max:"1M"`
	Header         headerMatch `yaml:"header,omitempty"`
}

// defaultSkip knows the built-in rules only.
func defaultSkip() Skip { return Skip{KnownApps: on} }

const on = "on"

// DecodeYAML reads a map, a list of rules, or on or off.
func (s *Skip) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	if strictyaml.Shape(n) == "list" {
		rules := strictyaml.Fields(reflect.TypeFor[Skip]())[1]
		at := strictyaml.Join(key, rules.Key)
		d.Note(at, n, n)
		d.Value(at, n, reflect.ValueOf(s).Elem().FieldByIndex(rules.Index), rules.Tag)
		return
	}
	if text, ok := strictyaml.Text(n); ok && text == Off {
		s.Rules = nil
	}
	d.Structure(key, n, reflect.ValueOf(s).Elem())
}

// A pattern is a regular expression in the syntax of RE2.
type pattern string

// UnmarshalText refuses expressions that do not compile.
func (p *pattern) UnmarshalText(text []byte) error {
	if _, err := rewrite.ParsePattern(string(text)); err != nil {
		return fmt.Errorf("%q is not a regular expression: %s", text, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	*p = pattern(text)
	return nil
}

// compiled returns the pattern, nil if there is none.
func (p pattern) compiled() *rewrite.Pattern {
	if p == "" {
		return nil
	}
	out, err := rewrite.ParsePattern(string(p))
	if err != nil {
		panic("BUG: pattern was not checked: " + err.Error())
	}
	return out
}

// A headerMatch is the name of a header, or "NAME: VALUE".
type headerMatch string

// UnmarshalText refuses what is not the name of a header.
func (h *headerMatch) UnmarshalText(text []byte) error {
	if name, value := headerMatch(text).parts(); !isToken(name) || strings.Contains(string(text), ":") && value == "" {
		return fmt.Errorf("%q is not a header; write a name, or NAME: VALUE, as in \"X-Task: title\"", text)
	}
	*h = headerMatch(text)
	return nil
}

func (h headerMatch) parts() (name, value string) {
	name, value, _ = strings.Cut(string(h), ":")
	return strings.TrimSpace(name), strings.TrimSpace(value)
}

// isToken reports whether s may be the name of a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// policy converts the settings for package rewrite. Defaults are left out, so that they do not
// change the hash of a policy.
func (s Skip) policy() rewrite.Skip {
	out := rewrite.Skip{NoApps: s.KnownApps == Off}
	for _, r := range s.Rules {
		rule := rewrite.SkipRule{Name: string(r.Name), System: r.SystemMatches.compiled(), User: r.UserMatches.compiled(), MaxTokensBelow: int(r.MaxTokensBelow)}
		rule.Header, rule.Value = r.Header.parts()
		out.Rules = append(out.Rules, rule)
	}
	return out
}

// checkSkip refuses rules without conditions, and names that are used twice.
func checkSkip(c checker, key string, s Skip) {
	names := map[Name]bool{}
	for _, known := range rewrite.KnownApps() {
		names[Name(known.Name)] = true
	}
	for i, r := range s.Rules {
		at := key + ".rules[" + itoa(i) + "]"
		conditions := 0
		for _, condition := range [...]string{"system_matches", "user_matches", "max_tokens_below", "header"} {
			if _, written := c.places[at+"."+condition]; written { // perhaps with a value that was refused
				conditions++
			}
		}
		if conditions == 0 && r == (skipRule{Name: r.Name}) {
			c.problem(at, "matches every request; add system_matches, user_matches, max_tokens_below or header")
		}
		if names[r.Name] && r.Name != "" {
			c.problem(at+".name", "%q is taken", r.Name)
		}
		names[r.Name] = true
	}
}
