package folder

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"sidenote/retrieval/knowledge/extract"
)

// frontAttributes returns the attributes under keys in the front matter of a text.
// One whose YAML is broken has none; a value that is no attribute is left out. The
// errors say so.
func frontAttributes(text string, keys []string) (found map[string]any, errs []error) {
	matter, body := extract.SplitFrontMatter(text)
	if len(body) == len(text) && unfinished(text, keys) {
		return nil, []error{errors.New("its front matter is not YAML, or does not end")}
	}
	found = map[string]any{}
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
		var v any
		_, node, err := extract.Entry(lines)
		if err == nil {
			v, err = scalarOrList(node)
		}
		if broken := (*extract.NotYAMLError)(nil); errors.As(err, &broken) {
			return nil, []error{fmt.Errorf("its front matter is not YAML at %q: %w", key, err)}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("attribute %q: %w", key, err))
		}
		found[key] = v
	}
	maps.DeleteFunc(found, func(_ string, v any) bool { return v == nil })
	return found, errs
}

// keyOf returns the key that an entry of a front matter, or a line, starts with.
func keyOf(lines string) string {
	line, _, _ := strings.Cut(lines, "\n")
	key, _, _ := strings.Cut(strings.TrimRight(strings.ReplaceAll(line, "\t", " "), " "), ": ")
	return strings.Trim(strings.TrimRight(key, ": \t"), `"'`)
}

// unfinished tells whether a text without a valid front matter begins like one that has
// one of these keys; other texts that begin with --- have a thematic break there. A key may
// also stand after a ?, a form that is not read.
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

// scalarOrList returns what a node says. A date is the string that stands there, as
// the parser has no other idea of it.
func scalarOrList(n ast.Node) (any, error) {
	switch n := n.(type) {
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.NullNode, *ast.StringNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		return n.(ast.ScalarNode).GetValue(), nil
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
