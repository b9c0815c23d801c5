package strictyaml

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// A Field is a struct field with a yaml tag, and its key.
type Field struct {
	reflect.StructField
	Key string
}

// Needed reports whether the key is required.
func (f Field) Needed() bool { return f.Tag.Get("need") != "" }

// unset reports whether v is a zero that no file can set, and so stands for "not set".
func (f Field) unset(v reflect.Value) bool {
	least := f.Tag.Get("min")
	return v.IsZero() && least != "" && !strings.HasPrefix(least, "0")
}

// Fields lists the keys of a struct, including those of embedded structs.
func Fields(t reflect.Type) []Field {
	var fields []Field
	for _, f := range reflect.VisibleFields(t) {
		if key, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); key != "" && key != "-" {
			fields = append(fields, Field{f, key})
		}
	}
	return fields
}

// A Cache holds the Fields of structs. It is not safe for concurrent use.
type Cache map[reflect.Type][]Field

// Fields is the function Fields, cached. The result must not be changed.
func (c Cache) Fields(t reflect.Type) []Field {
	fields, known := c[t]
	if !known {
		fields = Fields(t)
		if c != nil {
			c[t] = fields
		}
	}
	return fields
}

// Keys returns the keys of fields.
func Keys(fields []Field) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	return keys
}

// Join returns the key of name below key, which may be "".
func Join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// ShownKey is a value that is not shown by its keys, such as a secret.
type ShownKey interface {
	// Shown returns the text for people; "" if nothing is set.
	Shown() string
}

// A Setting is a key with its value.
type Setting struct {
	Key   string        // "retrieval.top_k", "components.house-rules.text"
	Text  string        // as in a file, on one line; "" is not set
	Value reflect.Value // the value that Text shows
}

// Settings lists what is set in v, a struct of the schema, in the order of its fields; maps are
// sorted by key. An element of a list of structs is identified by its first field, because its
// index changes when elements are inserted before it.
func Settings(v any) []Setting { return Cache{}.settings("", reflect.ValueOf(v)) }

// Differing lists the settings of two structs of one type that differ, and possibly some that do
// not: only equal fields are skipped.
func (c Cache) Differing(a, b any) (inA, inB []Setting) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for _, f := range c.Fields(x.Type()) {
		ofA, ofB := x.FieldByIndex(f.Index), y.FieldByIndex(f.Index)
		if reflect.DeepEqual(ofA.Interface(), ofB.Interface()) {
			continue
		}
		if !f.unset(ofA) {
			inA = append(inA, c.settings(f.Key, ofA)...)
		}
		if !f.unset(ofB) {
			inB = append(inB, c.settings(f.Key, ofB)...)
		}
	}
	return inA, inB
}

func (c Cache) settings(key string, v reflect.Value) []Setting {
	s := settings{fields: c}
	s.value(key, v)
	return s.list
}

type settings struct {
	list   []Setting
	fields Cache
}

func (s *settings) value(key string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if s.leaf(v) {
			break
		}
		for _, f := range s.fields.Fields(v.Type()) {
			if x := v.FieldByIndex(f.Index); !f.unset(x) {
				s.value(Join(key, f.Key), x)
			}
		}
		return
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.Interface {
			break // attributes of documents
		}
		for _, k := range sortedKeys(v) {
			before := len(s.list)
			s.value(Join(key, k.String()), v.MapIndex(k))
			if len(s.list) == before { // all of it is by default
				s.list = append(s.list, Setting{Join(key, k.String()), "{}", v.MapIndex(k)})
			}
		}
		return
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct || v.Len() == 0 || s.leaf(v.Index(0)) {
			break
		}
		s.elements(key, v)
		return
	}
	if text := TextSetting(v); text != "" {
		s.list = append(s.list, Setting{key, text, v})
	}
}

func sortedKeys(m reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(m.MapKeys()), func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
}

// elements lists the settings of a list of structs.
func (s *settings) elements(key string, v reflect.Value) {
	seen := map[string]int{}
	first := s.fields.Fields(v.Type().Elem())[0]
	for i := range v.Len() {
		name := TextSetting(v.Index(i).FieldByIndex(first.Index))
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s#%d", name, seen[name])
		}
		s.value(Join(key, name), v.Index(i))
	}
}

// leaf reports whether a struct is a single value.
func (*settings) leaf(v reflect.Value) bool {
	switch v.Interface().(type) {
	case ShownKey, encoding.TextMarshaler, yaml.InterfaceMarshaler:
		return true
	}
	return false
}

// TextSetting formats a value as in a file, on one line; "" if nothing is set.
func TextSetting(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case ShownKey:
		return x.Shown()
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		if err != nil {
			return ""
		}
		return string(text)
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Slice, reflect.Map, reflect.Struct:
		if v.Kind() != reflect.Struct && v.Len() == 0 {
			return ""
		}
		text, err := yaml.MarshalWithOptions(v.Interface(), yaml.Flow(true))
		if err != nil {
			panic("BUG: a setting cannot be written: " + err.Error())
		}
		return strings.TrimSpace(string(text))
	}
	return fmt.Sprint(v.Interface())
}
