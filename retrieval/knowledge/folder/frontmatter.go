package folder

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"sidenote/retrieval/knowledge/extract"
)

// maxFrontValue bounds the lines of a key that is an attribute, in bytes: what parses
// YAML takes time by the square of how deep they nest.
const maxFrontValue = 4 << 10

// frontAttributes returns the attributes under keys in the front matter of a text.
// One whose YAML is broken has none; a value that is no attribute is left out. The
// errors say so.
func frontAttributes(text string, keys []string) (found map[string]any, errs []error) {
	matter, body := extract.SplitFrontMatter(text)
	if len(body) == len(text) && unfinished(text, keys) {
		return nil, []error{errors.New("its front matter is not YAML, or does not end")}
	}
	for _, lines := range matter {
		if strings.HasPrefix(lines, "{") {
			return nil, []error{errors.New("its front matter is a map in braces, which is not read")}
		}
		key := keyOf(lines)
		if !slices.Contains(keys, key) {
			continue
		}
		if _, twice := found[key]; twice {
			return nil, []error{fmt.Errorf("its front matter has %q twice", key)}
		}
		v, err := frontValue(lines)
		if broken := (*brokenError)(nil); errors.As(err, &broken) {
			return nil, []error{fmt.Errorf("its front matter is not YAML at %q: %w", key, err)}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("attribute %q: %w", key, err))
		}
		if found == nil {
			found = map[string]any{}
		}
		found[key] = v
	}
	for key, v := range found {
		if v == nil {
			delete(found, key)
		}
	}
	return found, errs
}

// keyOf returns the key that an entry of a front matter, or a line, starts with.
func keyOf(lines string) string {
	line, _, _ := strings.Cut(lines, "\n")
	key, _, _ := strings.Cut(strings.TrimRight(strings.ReplaceAll(line, "\t", " "), " "), ": ")
	return strings.Trim(strings.TrimRight(key, ": \t"), `"'`)
}

// unfinished tells whether a text that has no front matter begins like one with
// these keys: a thematic break is no front matter that went wrong. A key may also stand
// after a ?, which is not read.
func unfinished(text string, keys []string) bool {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != "---" {
		return false
	}
	for line := range strings.Lines(rest) {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "---") {
			return false
		}
		key, odd := strings.CutPrefix(line, "? ")
		if (odd || strings.Contains(line, ":")) && slices.Contains(keys, keyOf(key)) {
			return true
		}
	}
	return false
}

// A brokenError is of what is no YAML.
type brokenError struct{ err error }

func (e *brokenError) Error() string {
	first, _, _ := strings.Cut(e.err.Error(), "\n") // an excerpt follows
	return first
}

func (e *brokenError) Unwrap() error { return e.err }

// frontValue returns the value of a key with its lines, nil for none. The YAML is parsed and not
// decoded, so that neither anchors nor tags nor merges are followed.
func frontValue(lines string) (v any, err error) {
	// A parser of hostile text must not be the end of the process.
	defer func() {
		if recover() != nil {
			v, err = nil, &brokenError{errors.New("it cannot be parsed")}
		}
	}()
	if len(lines) > maxFrontValue {
		return nil, fmt.Errorf("is longer than %d bytes", maxFrontValue)
	}
	file, err := parser.ParseBytes([]byte(lines), 0)
	if err != nil {
		return nil, &brokenError{err}
	}
	if len(file.Docs) == 1 {
		if m, ok := file.Docs[0].Body.(*ast.MappingNode); ok && len(m.Values) == 1 {
			return scalarOrList(m.Values[0].Value)
		}
	}
	return nil, &brokenError{errors.New("one key and its value are expected")}
}

// scalarOrList returns what a node says. A date is the string that stands there, as
// the parser has no other idea of it.
func scalarOrList(n ast.Node) (any, error) {
	switch n := n.(type) {
	case *ast.NullNode:
		return nil, nil
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.BoolNode:
		return n.Value, nil
	case *ast.IntegerNode:
		return n.Value, nil
	case *ast.FloatNode:
		return n.Value, nil
	case *ast.SequenceNode:
		list := make([]string, len(n.Values))
		for i, v := range n.Values {
			s, err := scalarOrList(v)
			text, ok := s.(string)
			if err != nil || !ok {
				return nil, fmt.Errorf("is a list with a YAML %s in it; lists are of strings", strings.ToLower(v.Type().String()))
			}
			list[i] = text
		}
		return list, nil
	}
	return nil, fmt.Errorf("is a YAML %s, neither a scalar nor a list of strings", strings.ToLower(n.Type().String()))
}
