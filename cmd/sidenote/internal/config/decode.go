package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"sidenote/cmd/sidenote/internal/config/callers"
	"sidenote/cmd/sidenote/internal/config/schema"
	"sidenote/cmd/sidenote/internal/config/spelling"
)

// A decoder reads one file's nodes into values and notes where each stood.
// Decoding over a value that is already filled replaces scalars and lists and
// goes into maps: that is how extends merges.
type decoder struct {
	file     string
	places   map[string]mark
	problems *Problems

	variables variables
	claims    bool // what is read may have claims of callers' tokens for values
}

// A mark is the place of a key's value, and its node.
type mark struct {
	Place
	node ast.Node
	env  string // the variable that the value was read from
}

// nearest returns the mark of a key, or of the closest key above it that has one.
func nearest(places map[string]mark, key string) (m mark, ok bool) {
	for ; key != "" && !ok; key = key[:max(strings.LastIndexAny(key, ".["), 0)] {
		m, ok = places[key]
	}
	return m, ok
}

func (d *decoder) place(n ast.Node) Place {
	p := position(n)
	return Place{File: d.file, Line: max(p.Line, 1), Column: max(p.Column, 1)}
}

func (d *decoder) problem(n ast.Node, key, format string, args ...any) {
	*d.problems = append(*d.problems, Problem{d.place(n), key, fmt.Sprintf(format, args...)})
}

// value decodes n into v. tag holds the limits of the field, and of the
// elements where the field is a list.
func (d *decoder) value(key string, n ast.Node, v reflect.Value, tag reflect.StructTag) {
	if !d.readable(key, n) {
		return
	}
	if _, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok || scalarKind(v) {
		d.scalar(key, n, v, tag)
		return
	}
	switch to := v.Addr().Interface().(type) {
	case *Filter:
		d.filter(key, n, to)
		return
	case *callers.Values:
		d.values(key, n, to)
		return
	case *Attributes:
		d.attributes(key, n, to)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(key, n, v)
	case reflect.Map:
		d.mapping(key, n, v)
	case reflect.Slice:
		d.list(key, n, v, tag)
	default:
		panic("BUG: schema holds a " + v.Type().String())
	}
}

// readable refuses anchors, aliases, tags and blanks.
func (d *decoder) readable(key string, n ast.Node) bool {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.problem(n, key, "anchors, aliases and tags are not read; policies share by extends")
		return false
	}
	if blank(n) {
		d.problem(n, key, "is blank; give it a value or leave the key out")
		return false
	}
	return true
}

func scalarKind(v reflect.Value) bool {
	kinds := []reflect.Kind{reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64}
	return slices.Contains(kinds, v.Kind())
}

// blank tells whether a key was written but nothing after it, which a reader
// could take for "none" or for "the default".
func blank(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.NullNode:
		return true
	case *ast.MappingNode:
		return len(n.Values) == 0
	case *ast.SequenceNode:
		return len(n.Values) == 0
	}
	text, ok := scalarText(n)
	return ok && strings.TrimSpace(text) == ""
}

// scalarText is the text of a scalar as it was written, so that off, no and
// 1.0 mean what they look like.
func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func (d *decoder) scalar(key string, n ast.Node, v reflect.Value, tag reflect.StructTag) {
	text, ok := scalarText(n)
	from := ""
	if isVariable(n) {
		if text, from, ok = d.variable(key, n); !ok {
			return
		}
	}
	if !ok {
		d.problem(n, key, "is a %s; it wants one value", shape(n))
		return
	}
	refuse := func(format string, args ...any) {
		d.problem(n, key, "%s", sourced(fmt.Sprintf(format, args...), text, from))
	}
	if words := tag.Get("of"); words != "" && !slices.Contains(strings.Split(words, "|"), text) {
		refuse("%q is none of %s%s", text, strings.ReplaceAll(words, "|", ", "),
			spelling.DidYouMean(text, strings.Split(words, "|")))
		return
	}
	parsed := reflect.New(v.Type()).Elem()
	if err := setText(parsed, text); err != nil {
		refuse("%v", err)
		return
	}
	if lo, hi := tag.Get("min"), tag.Get("max"); lo != "" && outside(parsed, lo, hi) {
		refuse("%s is out of range; use %s to %s", text, lo, hi)
		return
	}
	v.Set(parsed)
}

// setText parses text as v's type does.
func setText(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		dur, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration; %s", text, spelling.WriteIt(text, "300ms, 5s or 10m"))
		}
		v.SetInt(int64(dur))
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(text == "true")
	case reflect.Int:
		i, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		v.SetInt(int64(i))
	default:
		panic("BUG: schema holds a " + v.Type().String())
	}
	return nil
}

// outside tells whether v is below lo or above hi, which are texts of v's type.
func outside(v reflect.Value, lo, hi string) bool {
	limit := func(text string) int64 {
		l := reflect.New(v.Type()).Elem()
		if err := setText(l, text); err != nil {
			panic("BUG: limit in schema: " + err.Error())
		}
		return l.Int()
	}
	return v.Int() < limit(lo) || v.Int() > limit(hi)
}

func shape(n ast.Node) string {
	switch n.(type) {
	case ast.MapNode:
		return "map"
	case ast.ArrayNode:
		return "list"
	}
	return "value"
}

// plain is a map that says what a text in its place means.
type plain interface{ setPlain(text string) error }

// structure decodes a map into a struct, or a string into its first field.
func (d *decoder) structure(key string, n ast.Node, v reflect.Value) {
	if s, ok := v.Addr().Interface().(interface{ setDefaults() }); ok {
		s.setDefaults()
	}
	fields := schema.Fields(v.Type())
	if text, ok := scalarText(n); ok {
		if s, ok := v.Addr().Interface().(plain); ok {
			if err := s.setPlain(text); err != nil {
				d.problem(n, key, "%v", err)
			}
			return
		}
		first := fields[0]
		if k := first.Type.Kind(); k == reflect.Slice || k == reflect.Map || slices.ContainsFunc(fields[1:], schema.Field.Needed) {
			d.problem(n, key, "wants a map")
			return
		}
		d.places[join(key, first.Key)] = mark{Place: d.place(n), node: n}
		d.value(join(key, first.Key), n, v.FieldByIndex(first.Index), first.Tag)
		return
	}
	seen := map[string]bool{}
	d.entries(key, n, func(name string, nameNode, val ast.Node) {
		i := slices.IndexFunc(fields, func(f schema.Field) bool { return f.Key == name })
		if i < 0 {
			d.problem(nameNode, join(key, name), "unknown key%s", spelling.DidYouMean(name, schema.Keys(fields)))
			return
		}
		seen[name] = true
		d.value(join(key, name), val, v.FieldByIndex(fields[i].Index), fields[i].Tag)
	})
	for _, f := range fields {
		if f.Needed() && !seen[f.Key] && shape(n) == "map" {
			d.problem(n, join(key, f.Key), "is missing")
		}
	}
}

func (d *decoder) mapping(key string, n ast.Node, v reflect.Value) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	d.entries(key, n, func(name string, nameNode, val ast.Node) {
		k := reflect.New(v.Type().Key()).Elem()
		if err := setText(k, name); err != nil {
			d.problem(nameNode, key, "%v", err)
			return
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(join(key, name), val, elem, "")
		v.SetMapIndex(k, elem)
	})
}

// entries calls f for each entry of a map whose key is new; a key written
// twice, here or in an earlier file, is a problem.
func (d *decoder) entries(key string, n ast.Node, f func(name string, nameNode, val ast.Node)) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.problem(n, key, "is a %s; it wants a map", shape(n))
		return
	}
	torn := d.torn(key, m)
	for it := m.MapRange(); it.Next(); {
		if torn[it.Key()] || torn[it.Value()] {
			continue
		}
		name, ok := scalarText(it.Key())
		if !ok {
			d.problem(it.Key(), key, "has a key that is not plain text")
			continue
		}
		at := join(key, name)
		if before, ok := d.places[at]; ok && before.node != it.Value() && !d.shared(at, before) {
			d.problem(it.Key(), at, "is here twice; the first is at %s", before.Place)
			continue
		}
		d.places[at] = mark{Place: d.place(it.Key()), node: it.Value()}
		f(name, it.Key(), it.Value())
	}
}

// shared tells whether several files may have the map at key.
func (d *decoder) shared(key string, before mark) bool {
	return before.File != d.file && slices.Contains(schema.Keys(schema.Fields(reflect.TypeFor[Catalog]())), key)
}

func (d *decoder) list(key string, n ast.Node, v reflect.Value, tag reflect.StructTag) {
	a, ok := n.(*ast.SequenceNode)
	if !ok {
		d.problem(n, key, "is a %s; it wants a list, as in [a, b]", shape(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(a.Values))
	if _, more := d.places[key+"[0]"]; more {
		out = reflect.AppendSlice(out, v) // models of an earlier file
	}
	texts := map[string]bool{}
	for _, item := range a.Values {
		at := key + "[" + strconv.Itoa(out.Len()) + "]"
		d.places[at] = mark{Place: d.place(item), node: item}
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(at, item, elem, tag)
		out = reflect.Append(out, elem)
		if text, ok := scalarText(item); ok && texts[text] && elem.Kind() == reflect.String {
			d.problem(item, at, "%q is listed twice", text)
		} else if ok {
			texts[text] = true
		}
	}
	v.Set(out)
}

func join(key, name string) string { return schema.Join(key, name) }
