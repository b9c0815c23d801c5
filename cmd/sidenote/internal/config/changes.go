package config

import (
	"encoding"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
)

// changesOf returns the keys whose values differ between from and to, with the values of to. Both
// are of the same struct type; nested structs are compared key by key.
func changesOf(from, to any) yaml.MapSlice {
	return of(reflect.ValueOf(from), reflect.ValueOf(to))
}

func of(from, to reflect.Value) yaml.MapSlice {
	var out yaml.MapSlice
	for _, f := range reflect.VisibleFields(to.Type()) {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if key == "" || key == "-" {
			continue
		}
		before, after := from.FieldByIndex(f.Index), to.FieldByIndex(f.Index)
		if reflect.DeepEqual(before.Interface(), after.Interface()) {
			continue
		}
		value := after.Interface()
		if _, text := value.(encoding.TextMarshaler); !text && after.Kind() == reflect.Struct {
			value = of(before, after)
		}
		out = append(out, yaml.MapItem{Key: key, Value: value})
	}
	return out
}
