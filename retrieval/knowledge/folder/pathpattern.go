package folder

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A pathPattern extracts attributes from the path of a file; see Folder.PathPattern.
type pathPattern struct {
	names []string
	match *regexp.Regexp // its groups are the names; runs in linear time
}

// newPathPattern compiles a pattern.
func newPathPattern(pattern string) (*pathPattern, error) {
	p := &pathPattern{}
	text, err := p.expression(pattern)
	if err == nil && len(p.names) == 0 {
		err = errors.New("there is no {name} in it")
	}
	if err == nil {
		p.match, err = regexp.Compile(text)
	}
	if err != nil {
		return nil, fmt.Errorf("path pattern %q: %w", pattern, err)
	}
	return p, nil
}

// expression returns the pattern as a regular expression, and records the names.
func (p *pathPattern) expression(pattern string) (string, error) {
	var b strings.Builder
	b.WriteString(`\A`)
	segments := strings.Split(pattern, "/")
	for i, segment := range segments {
		last := i == len(segments)-1
		switch {
		case segment == "" || segment == "." || segment == "..":
			return "", fmt.Errorf("segment %d is %q, which never occurs in a path", i+1, segment)
		case segment == "**" && last:
			b.WriteString(`[^/]+(?:/[^/]+)*`)
			continue
		case segment == "**":
			b.WriteString(`(?:[^/]+/)*`)
			continue
		}
		if err := p.segment(&b, segment); err != nil {
			return "", err
		}
		if !last {
			b.WriteByte('/')
		}
	}
	b.WriteString(`\z`)
	return b.String(), nil
}

// segment writes the expression for one segment other than **.
func (p *pathPattern) segment(b *strings.Builder, segment string) error {
	rest, named := segment, false // whether a {name} ends where rest starts
	for rest != "" {
		at := strings.IndexAny(rest, `{}*?[]\`)
		if at < 0 {
			at = len(rest)
		}
		b.WriteString(regexp.QuoteMeta(rest[:at]))
		named = named && at == 0
		if rest = rest[at:]; rest == "" {
			break
		}
		switch rest[0] {
		case '{':
			name, after, closed := strings.Cut(rest[1:], "}")
			if err := p.name(name, closed, named); err != nil {
				return fmt.Errorf("segment %q: %w", segment, err)
			}
			b.WriteString(`([^/]+?)`)
			rest, named = after, true
			continue
		case '*':
			if strings.HasPrefix(rest, "**") {
				return fmt.Errorf("segment %q: ** stands for whole segments only", segment)
			}
			b.WriteString(`[^/]*`)
		case '?':
			b.WriteString(`[^/]`)
		default:
			return fmt.Errorf("segment %q: %q has no meaning here; there are {name}, *, ? and **", segment, rest[:1])
		}
		rest, named = rest[1:], false
	}
	return nil
}

// name records a name; after reports whether another one ends where it starts.
func (p *pathPattern) name(name string, closed, after bool) error {
	switch {
	case !closed:
		return errors.New("a { is not closed")
	case !regexp.MustCompile(`\A[A-Za-z_][A-Za-z0-9_.-]*\z`).MatchString(name):
		return fmt.Errorf("{%s} is no name: a letter or _, then letters, digits and any of .-_ are allowed", name)
	case slices.Contains(p.names, name):
		return fmt.Errorf("{%s} comes twice", name)
	case after:
		return fmt.Errorf("put a separator between {%s} and the name before it", name)
	}
	p.names = append(p.names, name)
	return nil
}

// values returns the attributes from a path, nil if it does not match.
func (p *pathPattern) values(file string) map[string]any {
	found := p.match.FindStringSubmatch(file)
	if found == nil {
		return nil
	}
	out := make(map[string]any, len(p.names))
	for i, name := range p.names {
		out[name] = found[i+1]
	}
	return out
}
