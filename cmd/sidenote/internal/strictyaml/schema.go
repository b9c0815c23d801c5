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

// A Field is a key of a struct: its yaml tag.
type Field struct {
	reflect.StructField
	Key string
}

// Needed tells whether the key must be there.
func (f Field) Needed() bool { return f.Tag.Get("need") != "" }

// unset tells whether v is a number that no file may hold, and so stands for none.
func (f Field) unset(v reflect.Value) bool {
	least := f.Tag.Get("min")
	return v.IsZero() && least != "" && !strings.HasPrefix(least, "0")
}

// Fields lists the keys of a struct; those of an embedded one are its own.
func Fields(t reflect.Type) []Field {
	var fields []Field
	for _, f := range reflect.VisibleFields(t) {
		if key, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); key != "" && key != "-" {
			fields = append(fields, Field{f, key})
		}
	}
	return fields
}

// A Cache has the Fields of structs that were asked for. It is not for several goroutines.
type Cache map[reflect.Type][]Field

// Fields are those of a struct, as Fields lists them; they must not be changed.
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

// Keys are the names of fields.
func Keys(fields []Field) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	return keys
}

// Join is the key of name below key, which may be "".
func Join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// ShownKey is a value that is shown in other words than its keys have, such as a secret.
type ShownKey interface {
	// Shown returns the text for people; "" where nothing is set.
	Shown() string
}

// A Setting is a key with its value.
type Setting struct {
	Key   string        // "retrieval.top_k", "components.house-rules.text"
	Text  string        // as a file would have it, on one line; "" is not set
	Value reflect.Value // what Text shows
}

// Settings lists what is set in v, which is a struct of the schema, in the order of its
// fields; maps are sorted by key. An element of a list of structs goes by its first field,
// because its number changes with each element before it.
func Settings(v any) []Setting { return Cache{}.settings("", reflect.ValueOf(v)) }

// Differing lists the settings of two structs of one type that differ, with some that do not:
// what differs in no setting is not walked through.
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

// elements lists those of a list of structs.
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

// leaf tells whether a struct is one value.
func (*settings) leaf(v reflect.Value) bool {
	switch v.Interface().(type) {
	case ShownKey, encoding.TextMarshaler, yaml.InterfaceMarshaler:
		return true
	}
	return false
}

// TextSetting is a value as a file would have it, on one line; "" where nothing is set.
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
