package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/retrieval/filter"
)

// A Filter selects documents by their attributes, in the syntax of OpenAI's vector stores.
type Filter struct{ Of *filter.Filter }

// filterAttributes are the attributes of all documents of a base: strings, numbers, booleans, and
// lists of strings.
type filterAttributes map[string]any

// allFilters returns the conjunction of some filters; nil for none.
func allFilters(filters []Filter) *filter.Filter {
	parts := make([]*filter.Filter, len(filters))
	for i, f := range filters {
		parts[i] = f.Of
	}
	return filter.AllOf(parts...)
}

// MarshalYAML returns the filter as it would be written by hand.
func (f Filter) MarshalYAML() (any, error) {
	if f.Of.Filters == nil {
		return yaml.MapSlice{{Key: "type", Value: f.Of.Type}, {Key: "key", Value: f.Of.Key}, {Key: "value", Value: written(f.Of.Value)}}, nil
	}
	parts := make([]Filter, len(f.Of.Filters))
	for i := range parts {
		parts[i].Of = &f.Of.Filters[i]
	}
	return yaml.MapSlice{{Key: "type", Value: f.Of.Type}, {Key: "filters", Value: parts}}, nil
}

// written returns a filter's value with whole numbers as people write them.
func written(v any) any {
	switch v := v.(type) {
	case filter.Claim:
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

// DecodeYAML reads a filter and records the positions of its parts.
func (f *Filter) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	before := len(*d.Problems)
	r := reader{Decoder: d, claims: true}
	text := r.json(key, n)
	if len(*d.Problems) > before {
		return
	}
	of, err := filter.ParseWithClaims(text)
	if err != nil {
		if at := (*filter.Error)(nil); errors.As(err, &at) {
			key, err = strings.TrimSuffix(strictyaml.Join(key, at.At), "."), at.Err
			if m, ok := r.marks(n).Nearest(at.At); ok {
				n = m.Node
			}
		}
		if r.from != "" {
			err = fmt.Errorf("%s is refused", r.from) // it may be a secret that was named by mistake
		}
		d.Problem(n, key, "%v", err)
		return
	}
	f.Of = of
}

// DecodeYAML reads a map of attributes and records the position of each.
func (a *filterAttributes) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	if _, isMap := n.(ast.MapNode); !isMap {
		d.Problem(n, key, "expected a map such as {audience: staff}, got a %s", strictyaml.Shape(n))
		return
	}
	before := len(*d.Problems)
	r := reader{Decoder: d}
	text := r.json(key, n)
	if len(*d.Problems) > before {
		return
	}
	if err := json.Unmarshal(text, (*map[string]any)(a)); err != nil {
		panic("BUG: what was checked is no JSON: " + err.Error())
	}
}

// A reader converts YAML nodes to JSON.
type reader struct {
	*strictyaml.Decoder
	claims bool   // values may be claims of callers' tokens
	from   string // the variable that supplied a value; "" for none
}

// marks returns the positions of a filter's parts, which the Decoder does not keep for tenants.
func (r *reader) marks(n ast.Node) strictyaml.Marks {
	again := reader{Decoder: &strictyaml.Decoder{Marks: strictyaml.Marks{}, Problems: &strictyaml.Problems{}, Variables: r.Variables}, claims: true}
	again.json("", n)
	return again.Marks
}

// json returns the JSON of a value, and records the positions of its parts.
func (r *reader) json(key string, n ast.Node) []byte {
	if !r.Readable(key, n) {
		return nil
	}
	var parts [][]byte
	switch list := n.(type) {
	case ast.MapNode:
		if strictyaml.IsVariable(n) && single(r.claims, key) {
			text, from, _ := r.Variable(key, n)
			r.from = from
			return quote(text)
		}
		if r.claims && strings.HasSuffix(key, ".value") {
			r.Problem(n, key, "expected a value, {env: NAME, default: VALUE}, a list of them, or \"${claims.NAME}\", got a map")
			return nil
		}
		r.Entries(key, n, func(name string, _, val ast.Node) {
			parts = append(parts, append(append(quote(name), ':'), r.json(strictyaml.Join(key, name), val)...))
		})
		return slices.Concat([]byte("{"), bytes.Join(parts, []byte(",")), []byte("}"))
	case *ast.SequenceNode:
		for i, item := range list.Values {
			at := key + "[" + strconv.Itoa(i) + "]"
			r.Note(at, item, item)
			parts = append(parts, r.json(at, item))
		}
		return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
	}
	return r.jsonScalar(key, n)
}

// single reports whether a key of a filter or of attributes may have a variable as its value.
func single(filter bool, key string) bool {
	if filter {
		return strings.HasPrefix(key[strings.LastIndexByte(key, '.')+1:], "value")
	}
	return !strings.HasSuffix(key, ".attributes") && !strings.HasSuffix(key, "]") // lists are reported where they are refused
}

// jsonScalar returns a string, a number or a boolean as it was written. What only looks like a
// number (0x10, 1_000, .inf) or a boolean (True) is refused, for a guess could match other
// attributes.
func (r *reader) jsonScalar(key string, n ast.Node) []byte {
	text, ok := strictyaml.Text(n)
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		plain := n.GetToken().Type == token.StringType // not in quotes
		if plain && strictyaml.OutOfRange(text) {
			r.Problem(n, key, "%q is out of range; put it in quotes to mean a text", text)
		}
		if strings.Contains(text, "${") {
			return placeholder(r, key, n, text)
		}
		if m := nearClaim.FindStringSubmatch(text); m != nil && r.claims {
			r.Problem(n, key, "%q is plain text; for a claim of the caller's token write ${claims.%s}", text, m[1])
			return nil
		}
		return quote(text)
	case *ast.BoolNode:
		ok = text == "true" || text == "false"
	default:
		_, err := strconv.ParseFloat(text, 64)
		ok = ok && err == nil && json.Valid([]byte(text))
	}
	if !ok {
		r.Problem(n, key, "%q is neither a plain number nor true or false; put it in quotes to mean a text", text)
		return nil
	}
	return []byte(text)
}

// nearClaim matches a placeholder for a claim in another notation: $claims.x, {claims.x}, {{
// claims.x }}, $(claims.x), %claims.x%.
var nearClaim = regexp.MustCompile(`^\s*[$%@]?[{(%]*\s*\$?claims?\.([A-Za-z_][A-Za-z0-9_.-]*?)\s*[})%]*\s*$`)

// placeholder returns the JSON of ${claims.NAME}, which may be the value of an eq or in.
func placeholder(r *reader, key string, n ast.Node, text string) []byte {
	name, ok := strings.CutPrefix(text, "${claims.")
	name, closed := strings.CutSuffix(name, "}")
	switch {
	case !ok || !closed || name == "" || strings.ContainsAny(name, "${} \t\r\n"):
		r.Problem(n, key, "%q has a placeholder that is none; there is ${claims.NAME}, for a claim of the caller's token", text)
	case !r.claims || !strings.HasSuffix(key, ".value"):
		r.Problem(n, key, "%q stands where no claim can; it is the whole value of a filter of type eq or in", text)
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
