package jsonschema

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/config/callers"
	"sidenote/cmd/sidenote/internal/config/filter"
	"sidenote/cmd/sidenote/internal/config/limits"
	"sidenote/cmd/sidenote/internal/config/schema"
	"sidenote/cmd/sidenote/internal/config/stageset"
	"sidenote/cmd/sidenote/internal/config/typed"
)

const intro = `# Configuration keys

Every key of a configuration file, with its type and default. ` + "`sidenote check --schema`" + ` prints the same as a JSON Schema
for editors. [The page of commands](README.md#configuration) explains how a file is read, and
[an example](../../deploy/sidenote.example.yaml) sets every key.

` + "`NAME`" + ` stands for a name of your choice, ` + "`[]`" + ` for each element of a list. A secret is ` + "`{env: NAME}`" + ` or ` + "`{file: PATH}`" + `.

<!-- Generated from cmd/sidenote/internal/config/jsonschema: go test ./cmd/sidenote/internal/config/jsonschema -run Page -update -->
`

// Page returns the reference of all keys, in Markdown. It panics if the table describes a key
// that the configuration does not have.
func Page() string {
	fields := map[string]schema.Field{}
	collect(fields, "", reflect.TypeFor[config.Config]())
	var b strings.Builder
	b.WriteString(intro)
	for _, s := range sections() {
		switch {
		case s.at == "":
			b.WriteString("\n## Top level\n")
		case strings.HasPrefix(s.at, "policies.NAME."):
			fmt.Fprintf(&b, "\n### `%s`\n\n%s\n", s.at, s.text)
		default:
			fmt.Fprintf(&b, "\n## `%s`\n\n%s\n", s.at, s.text)
		}
		if len(s.keys) == 0 {
			continue
		}
		b.WriteString("\n| key | type | default | description |\n|---|---|---|---|\n")
		for _, a := range s.keys {
			f, ok := fields[join(s.at, a.name)]
			if !ok {
				panic("BUG: the configuration has no key " + join(s.at, a.name))
			}
			fallback := a.fallback
			if f.Needed() {
				fallback = "required"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", a.name, kind(f.Type, f.Tag), fallback, a.text)
		}
	}
	return b.String()
}

// collect lists the keys below one key by their names in the table.
func collect(fields map[string]schema.Field, key string, t reflect.Type) {
	switch {
	case t == reflect.TypeFor[filter.Filter]() || kind(t, "") != "map":
	case t.Kind() == reflect.Map:
		collect(fields, key+".NAME", t.Elem())
	case t.Kind() == reflect.Struct:
		for _, f := range schema.Fields(t) {
			at := schema.Join(key, f.Key)
			fields[at] = f
			if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct {
				collect(fields, at+"[]", f.Type.Elem())
			} else {
				collect(fields, at, f.Type)
			}
		}
	}
}

// kind names the type of a key, with its range.
func kind(t reflect.Type, tag reflect.StructTag) string {
	ranged := func(name string) string {
		if least, most := tag.Get("min"), tag.Get("max"); least != "" && least != most {
			return least + " to " + most
		}
		return name
	}
	if tag.Get("of") != "" {
		if t.Kind() == reflect.Slice {
			return "list"
		}
		return "word"
	}
	switch t {
	case reflect.TypeFor[config.Secret]():
		return "secret"
	case reflect.TypeFor[config.RedisURL](), reflect.TypeFor[config.ProxyURL]():
		return "URL or secret"
	case reflect.TypeFor[config.Ports]():
		return "address or list"
	case reflect.TypeFor[filter.Attributes](), reflect.TypeFor[typed.Metadata]():
		return "map of values"
	case reflect.TypeFor[callers.Values]():
		return "value or list"
	case reflect.TypeFor[stageset.Chain]():
		return "preset or list"
	case reflect.TypeFor[config.Name]():
		return "name"
	case reflect.TypeFor[config.Count]():
		return ranged("number")
	case reflect.TypeFor[config.Bytes]():
		return ranged("size")
	case reflect.TypeFor[time.Duration]():
		return ranged("duration")
	case reflect.TypeFor[limits.USD](), reflect.TypeFor[limits.Price]():
		return ranged("USD")
	case reflect.TypeFor[config.Date]():
		return "date"
	case reflect.TypeFor[stageset.Temperature](), reflect.TypeFor[config.Weight](), reflect.TypeFor[config.Threshold](), reflect.TypeFor[config.Relevance](), reflect.TypeFor[config.Priority]():
		return "number or word"
	}
	if isScalar(t) {
		switch t.Kind() {
		case reflect.Bool:
			return "bool"
		case reflect.Int:
			return "number"
		default:
			return "text"
		}
	}
	if t.Kind() == reflect.Slice {
		return "list"
	}
	return "map"
}
