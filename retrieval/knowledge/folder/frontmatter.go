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

// frontAttributes returns the attributes for keys in the front matter of a text. Invalid YAML
// yields none; a value that cannot be an attribute is left out. Both are reported as errors.
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

// keyOf returns the key at the start of a front matter entry or a line.
func keyOf(lines string) string {
	line, _, _ := strings.Cut(lines, "\n")
	key, _, _ := strings.Cut(strings.TrimRight(strings.ReplaceAll(line, "\t", " "), " "), ": ")
	return strings.Trim(strings.TrimRight(key, ": \t"), `"'`)
}

// valueText returns the value of a key in the front matter of a text, as it stands there.
func valueText(text, key string) string {
	matter, _ := extract.SplitFrontMatter(text)
	for _, lines := range matter {
		if keyOf(lines) == key {
			_, value, _ := strings.Cut(lines, ":")
			value, _, _ = strings.Cut(value, "#")
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// unfinished reports whether a text without a valid front matter begins like one with one of these
// keys; in other texts a leading --- is a thematic break. A key may also follow a ?, a form that
// is not supported.
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

// scalarOrList returns the value of a node. A date is a string, because the parser does not
// recognize dates.
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
				return nil, fmt.Errorf("is a list that contains a YAML %s; only strings are allowed", strings.ToLower(v.Type().String()))
			}
			list[i] = text
		}
		return list, nil
	}
	return nil, fmt.Errorf("is a YAML %s, neither a scalar nor a list of strings", strings.ToLower(n.Type().String()))
}
