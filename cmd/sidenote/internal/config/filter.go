package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"sidenote/retrieval"
)

// A Filter chooses documents by their attributes, in the grammar of OpenAI's vector
// stores. Package retrieval parses it; this file turns YAML into JSON for that parser, and
// gives its errors a line and column.
type Filter struct{ of *retrieval.Filter }

// allOf is what all of some filters choose, nil without any.
func allOf(filters []Filter) *retrieval.Filter {
	parts := make([]*retrieval.Filter, len(filters))
	for i, f := range filters {
		parts[i] = f.of
	}
	return retrieval.AllOf(parts...)
}

// MarshalYAML writes the filter as it would be written by hand.
func (f Filter) MarshalYAML() (any, error) {
	if f.of.Filters == nil {
		return yaml.MapSlice{{Key: "type", Value: f.of.Type}, {Key: "key", Value: f.of.Key}, {Key: "value", Value: written(f.of.Value)}}, nil
	}
	parts := make([]Filter, len(f.of.Filters))
	for i := range parts {
		parts[i].of = &f.of.Filters[i]
	}
	return yaml.MapSlice{{Key: "type", Value: f.of.Type}, {Key: "filters", Value: parts}}, nil
}

// written is a filter's value with whole numbers as people write them.
func written(v any) any {
	switch v := v.(type) {
	case retrieval.Claim:
		return "${claims." + string(v) + "}"
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = written(v[i])
		}
		return list
	case float64:
		if whole := int64(v); float64(whole) == v && math.Abs(v) < 1<<53 {
			return whole
		}
	}
	return v
}

// filter reads a filter and notes where its parts stand.
func (d *decoder) filter(key string, n ast.Node, to *Filter) {
	before := len(*d.problems)
	d.claims = true
	text := d.json(key, n)
	d.claims = false
	if len(*d.problems) > before {
		return
	}
	f, err := retrieval.ParseFilterWithClaims(text)
	if err != nil {
		if at := (*retrieval.FilterError)(nil); errors.As(err, &at) {
			key, err = strings.TrimSuffix(join(key, at.At), "."), at.Err
		}
		if m, ok := nearest(d.places, key); ok {
			n = m.node
		}
		d.problem(n, key, "%v", err)
		return
	}
	to.of = f
}

// attributes reads a map of them and notes where each stands.
func (d *decoder) attributes(key string, n ast.Node, to *Attributes) {
	if _, isMap := n.(ast.MapNode); !isMap {
		d.problem(n, key, "is a %s; it wants a map such as {audience: staff}", shape(n))
		return
	}
	before := len(*d.problems)
	text := d.json(key, n)
	if len(*d.problems) > before {
		return
	}
	if err := json.Unmarshal(text, (*map[string]any)(to)); err != nil {
		panic("BUG: what was checked is no JSON: " + err.Error())
	}
}

// json returns the JSON of a value, and notes where its parts stand.
func (d *decoder) json(key string, n ast.Node) []byte {
	if !d.readable(key, n) {
		return nil
	}
	var parts [][]byte
	switch list := n.(type) {
	case ast.MapNode:
		if d.claims && strings.HasSuffix(key, ".value") {
			d.problem(n, key, "is a map; it wants a value, a list of them, or \"${claims.NAME}\"")
			return nil
		}
		d.entries(key, n, func(name string, _, val ast.Node) {
			parts = append(parts, append(append(quote(name), ':'), d.json(join(key, name), val)...))
		})
		return slices.Concat([]byte("{"), bytes.Join(parts, []byte(",")), []byte("}"))
	case *ast.SequenceNode:
		for i, item := range list.Values {
			at := key + "[" + itoa(i) + "]"
			d.places[at] = mark{Place: d.place(item), node: item}
			parts = append(parts, d.json(at, item))
		}
		return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
	}
	return d.jsonScalar(key, n)
}

// jsonScalar is a string, a number or a boolean as it was written: what only looks
// like a number (0x10, 1_000, .inf) or a boolean (True) is refused rather than
// guessed at, for it would compare with other attributes.
func (d *decoder) jsonScalar(key string, n ast.Node) []byte {
	text, ok := scalarText(n)
	_, err := strconv.ParseFloat(text, 64)
	plain := n.GetToken().Type == token.StringType // not in quotes
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		if plain && errors.Is(err, strconv.ErrRange) {
			d.problem(n, key, "%q is out of range; put it in quotes to mean a text", text)
		}
		if strings.Contains(text, "${") {
			return d.placeholder(key, n, text)
		}
		return quote(text)
	case *ast.BoolNode:
		ok = text == "true" || text == "false"
	default:
		ok = ok && err == nil && json.Valid([]byte(text))
	}
	if !ok {
		d.problem(n, key, "%q is neither a plain number nor true or false; put it in quotes to mean a text", text)
		return nil
	}
	return []byte(text)
}

// placeholder returns the JSON of ${claims.NAME}, which may be the value of an eq or in.
func (d *decoder) placeholder(key string, n ast.Node, text string) []byte {
	name, ok := strings.CutPrefix(text, "${claims.")
	name, closed := strings.CutSuffix(name, "}")
	switch {
	case !ok || !closed || name == "" || strings.ContainsAny(name, "${} \t\r\n"):
		d.problem(n, key, "%q has a placeholder that is none; there is ${claims.NAME}, for a claim of the caller's token", text)
	case !d.claims || !strings.HasSuffix(key, ".value"):
		d.problem(n, key, "%q stands where no claim can; it is the whole value of a filter of type eq or in", text)
	}
	return slices.Concat([]byte(`{"claim":`), quote(name), []byte("}"))
}

func quote(text string) []byte {
	out, err := json.Marshal(text)
	if err != nil {
		panic("BUG: a string did not encode: " + err.Error())
	}
	return out
}
