// Package strictyaml reads configuration files strictly: unknown keys, duplicate keys and wrong
// types are errors with line and column, and likely spellings are suggested. It knows no key by
// name.
//
// The YAML parser needs time and memory that grow with the square of the entries of one map, so a
// large file is parsed in parts, several at a time. A schema says which keys the types of a
// configuration have; the decoder, the comparison and the JSON Schema all read it, so that they
// agree.
//
// goccy/go-yaml's own strict mode could replace at most 166 of the 1,089 lines of code here. It
// stops at the first error, refuses short forms and variables, and has the place and the text that
// are wanted for 1 of the 137 files of TestRefused, and the place alone for another 26.
package strictyaml

import (
	"encoding"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// A Decoder decodes the nodes of one file into values and records their positions. Decoding into a
// filled value replaces scalars and lists and merges maps, which is how extends works.
type Decoder struct {
	File      string
	Marks     Marks
	Problems  *Problems
	Variables Variables
	Shared    reflect.Type // a struct whose maps and lists several files may extend; nil for none
	Fields    Cache
}

// A Node is a type that decodes its own node and reports its problems.
type Node interface {
	DecodeYAML(d *Decoder, key string, n ast.Node)
}

// A Mark is the position of a key's value, and its node.
type Mark struct {
	Place
	Node ast.Node // nil below tenants: not needed again, and many would fill the memory
	Env  string   // the variable that supplied the value
}

// Text returns the scalar at a mark, as it was written.
func (m Mark) Text() string {
	text, _ := Text(m.Node)
	return text
}

// Marks holds the marks of all keys that are written.
type Marks map[string]Mark

// Nearest returns the mark of a key, or of its nearest parent with a mark.
func (all Marks) Nearest(key string) (m Mark, ok bool) {
	for ; key != "" && !ok; key = key[:max(strings.LastIndexAny(key, ".["), 0)] {
		m, ok = all[key]
	}
	return m, ok
}

func (d *Decoder) place(n ast.Node) Place {
	p := Position(n)
	return Place{File: d.File, Line: max(p.Line, 1), Column: max(p.Column, 1)}
}

// Note records that the value n of a key is at a node.
func (d *Decoder) Note(key string, at, n ast.Node) {
	if strings.HasPrefix(key, "tenants.") {
		n = nil
	}
	d.Marks[key] = Mark{Place: d.place(at), Node: n}
}

// Problem reports a problem of the node at a key.
func (d *Decoder) Problem(n ast.Node, key, format string, args ...any) {
	*d.Problems = append(*d.Problems, Problem{Place: d.place(n), Key: key, Reason: fmt.Sprintf(format, args...)})
}

// Part decodes a part of the file into a struct of the schema.
func (d *Decoder) Part(p Part, to reflect.Value) {
	if p.Key == "" {
		d.Value("", p.Node, to, "")
		return
	}
	for _, f := range d.Fields.Fields(to.Type()) {
		if f.Key == p.Key { // unknown keys have been reported
			d.Value(p.Key, p.Node, to.FieldByIndex(f.Index), f.Tag)
		}
	}
}

// Value decodes n into v. tag holds the limits of the field, which apply to the elements if the
// field is a list.
func (d *Decoder) Value(key string, n ast.Node, v reflect.Value, tag reflect.StructTag) {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) == 0 {
		if _, ok := v.Addr().Interface().(AllDefault); ok {
			d.Structure(key, n, v)
			return
		}
	}
	if !d.Readable(key, n) {
		return
	}
	if own, ok := v.Addr().Interface().(Node); ok {
		own.DecodeYAML(d, key, n)
		return
	}
	if _, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok || scalarKind(v) {
		d.Scalar(key, n, v, tag)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.Structure(key, n, v)
	case reflect.Map:
		d.mapping(key, n, v)
	case reflect.Slice:
		d.List(key, n, v, tag)
	default:
		panic("BUG: schema holds a " + v.Type().String())
	}
}

// Readable reports whether n can be decoded. It refuses anchors, aliases, tags and blanks.
func (d *Decoder) Readable(key string, n ast.Node) bool {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.Problem(n, key, "anchors, aliases and tags are not read; policies share by extends")
		return false
	}
	if blank(n) {
		d.Problem(n, key, "is blank; give it a value or leave the key out")
		return false
	}
	return true
}

func scalarKind(v reflect.Value) bool {
	kinds := []reflect.Kind{reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64}
	return slices.Contains(kinds, v.Kind())
}

// An AllDefault is a value that can be written as {}, with the default of every key.
type AllDefault interface{ AllDefault() }

// blank reports whether a key has no value, which a reader could take for "none" or for "the
// default".
func blank(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.NullNode:
		return true
	case *ast.MappingNode:
		return len(n.Values) == 0
	case *ast.SequenceNode:
		return len(n.Values) == 0
	}
	text, ok := Text(n)
	return ok && strings.TrimSpace(text) == ""
}

// Text returns the text of a scalar as it was written, so that off, no and 1.0 mean what they look
// like.
func Text(n ast.Node) (string, bool) {
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

// Scalar decodes a scalar, or a variable in its place, within the limits of a tag.
func (d *Decoder) Scalar(key string, n ast.Node, v reflect.Value, tag reflect.StructTag) {
	text, ok := Text(n)
	from := ""
	if IsVariable(n) {
		if text, from, ok = d.Variable(key, n); !ok {
			return
		}
	}
	if !ok {
		d.Problem(n, key, "expected one value, got a %s", Shape(n))
		return
	}
	refuse := func(format string, args ...any) {
		d.Problem(n, key, "%s", Sourced(fmt.Sprintf(format, args...), text, from))
	}
	if words := tag.Get("of"); words != "" && !slices.Contains(strings.Split(words, "|"), text) {
		refuse("%q is none of %s%s", text, strings.ReplaceAll(words, "|", ", "),
			MeantWord(text, strings.Split(words, "|")))
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
			return fmt.Errorf("%q is not a duration; %s", text, SpellingHint(text, "300ms, 5s or 10m"))
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

// outside reports whether v is below lo or above hi, which are texts of v's type.
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

// Shape returns the word for the kind of a node.
func Shape(n ast.Node) string {
	switch n.(type) {
	case ast.MapNode:
		return "map"
	case ast.ArrayNode:
		return "list"
	}
	return "value"
}

// plain is a map that may be written as a single string.
type plain interface{ SetPlain(text string) error }

// Structure decodes a map into a struct, or a string into its first field.
func (d *Decoder) Structure(key string, n ast.Node, v reflect.Value) {
	if s, ok := v.Addr().Interface().(interface{ SetDefaults() }); ok {
		s.SetDefaults()
	}
	fields := d.Fields.Fields(v.Type())
	if text, ok := Text(n); ok {
		if s, ok := v.Addr().Interface().(plain); ok {
			if err := s.SetPlain(text); err != nil {
				d.Problem(n, key, "%v", err)
			}
			return
		}
		first := fields[0]
		if k := first.Type.Kind(); k == reflect.Slice || k == reflect.Map || slices.ContainsFunc(fields[1:], Field.Needed) {
			d.Problem(n, key, "expected a map, got a %s", Shape(n))
			return
		}
		d.Note(Join(key, first.Key), n, n)
		d.Value(Join(key, first.Key), n, v.FieldByIndex(first.Index), first.Tag)
		return
	}
	seen := make([]bool, len(fields))
	d.Entries(key, n, func(name string, nameNode, val ast.Node) {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Key == name })
		if i < 0 {
			d.Problem(nameNode, Join(key, name), "unknown key%s", d.suggestion(key, name, fields, v.Type()))
			return
		}
		seen[i] = true
		d.Value(Join(key, name), val, v.FieldByIndex(fields[i].Index), fields[i].Tag)
	})
	for i, f := range fields {
		if f.Needed() && !seen[i] && Shape(n) == "map" {
			d.Problem(n, Join(key, f.Key), "is missing")
		}
	}
}

// suggestion suggests a key for an unknown one: a similar sibling or, for a top-level key, the
// places further down that have this key.
func (d *Decoder) suggestion(key, name string, fields []Field, of reflect.Type) string {
	if similar := DidYouMean(name, Keys(fields)); similar != "" || key != "" {
		return similar
	}
	places := d.placesOf(name, "", of, 3)
	if len(places) == 0 {
		return ""
	}
	return "; it belongs in " + strings.Join(places[:min(len(places), 2)], " or ")
}

// placesOf returns the maps below key that have a key of that name, at most depth levels down,
// those nearest to the top first.
func (d *Decoder) placesOf(name, key string, of reflect.Type, depth int) (places []string) {
	type below struct {
		key string
		of  reflect.Type
	}
	level := []below{{key, of}}
	for range depth {
		var next []below
		for _, b := range level {
			for _, f := range d.Fields.Fields(b.of) {
				at, t := Join(b.key, f.Key), f.Type
				if f.Key == name && b.key != key && !slices.Contains(places, b.key) {
					places = append(places, b.key)
				}
				switch t.Kind() {
				case reflect.Map:
					at, t = at+".NAME", t.Elem()
				case reflect.Slice:
					t = t.Elem()
				}
				if t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[Node]()) && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
					next = append(next, below{at, t})
				}
			}
		}
		level = next
	}
	return places
}

// A plainMap is a map that may be written as the text of its only entry.
type plainMap interface {
	// PlainName returns the name of the entry that text stands for, in a file of folder dir.
	PlainName(dir, text string) (name string, err error)
}

func (d *Decoder) mapping(key string, n ast.Node, v reflect.Value) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	if of, ok := v.Interface().(plainMap); ok {
		if text, ok := Text(n); ok {
			d.plainEntry(key, n, v, text, of)
			return
		}
	}
	d.Entries(key, n, func(name string, nameNode, val ast.Node) {
		k := reflect.New(v.Type().Key()).Elem()
		if err := setText(k, name); err != nil {
			d.Problem(nameNode, key, "%v", err)
			return
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		d.Value(Join(key, name), val, elem, "")
		v.SetMapIndex(k, elem)
	})
}

// plainEntry decodes a text that stands for a map with one entry.
func (d *Decoder) plainEntry(key string, n ast.Node, v reflect.Value, text string, of plainMap) {
	name, err := of.PlainName(filepath.Dir(d.File), text)
	k := reflect.New(v.Type().Key()).Elem()
	if err == nil {
		err = setText(k, name)
	}
	if err != nil {
		d.Problem(n, key, "%v", err)
		return
	}
	elem := reflect.New(v.Type().Elem()).Elem()
	d.Value(Join(key, name), n, elem, "")
	v.SetMapIndex(k, elem)
}

// Entries calls f for each entry of a map with a new key. A key that occurs twice, here or in an
// earlier file, is a problem.
func (d *Decoder) Entries(key string, n ast.Node, f func(name string, nameNode, val ast.Node)) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.Problem(n, key, "expected a map, got a %s", Shape(n))
		return
	}
	torn := d.torn(key, m)
	for it := m.MapRange(); it.Next(); {
		if torn[it.Key()] || torn[it.Value()] {
			continue
		}
		name, ok := Text(it.Key())
		if !ok {
			d.Problem(it.Key(), key, "has a key that is not plain text")
			continue
		}
		at := Join(key, name)
		if before, ok := d.Marks[at]; ok && !d.shared(at, before) {
			d.Problem(it.Key(), at, "is here twice; the first is at %s", before.Place)
			continue
		}
		d.Note(at, it.Key(), it.Value())
		f(name, it.Key(), it.Value())
	}
}

// shared reports whether several files may have the map at key.
func (d *Decoder) shared(key string, before Mark) bool {
	return before.File != d.File && d.Shared != nil && slices.Contains(Keys(Fields(d.Shared)), key)
}

// List decodes a list. tag holds the limits of its elements.
func (d *Decoder) List(key string, n ast.Node, v reflect.Value, tag reflect.StructTag) {
	a, ok := n.(*ast.SequenceNode)
	if !ok {
		d.Problem(n, key, "expected a list, as in [a, b], got a %s", Shape(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(a.Values))
	if _, more := d.Marks[key+"[0]"]; more {
		out = reflect.AppendSlice(out, v) // such as models of an earlier file
	}
	texts := map[string]bool{}
	for _, item := range a.Values {
		at := key + "[" + strconv.Itoa(out.Len()) + "]"
		d.Note(at, item, item)
		elem := reflect.New(v.Type().Elem()).Elem()
		d.Value(at, item, elem, tag)
		out = reflect.Append(out, elem)
		if text, ok := Text(item); ok && texts[text] && elem.Kind() == reflect.String {
			d.Problem(item, at, "%q is listed twice", text)
		} else if ok {
			texts[text] = true
		}
	}
	v.Set(out)
}
