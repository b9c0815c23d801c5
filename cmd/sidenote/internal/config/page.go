package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

const intro = `# Configuration keys

Every key of a configuration file, with its type and default. ` + "`sidenote check --schema`" + ` prints the same as a JSON Schema
for editors. [The page of commands](README.md#configuration) explains how a file is read, and
[an example](../../deploy/sidenote.example.yaml) sets every key.

` + "`NAME`" + ` stands for a name of your choice, ` + "`[]`" + ` for each element of a list. A secret is ` + "`{env: NAME}`" + ` or ` + "`{file: PATH}`" + `.

<!-- Generated from cmd/sidenote/internal/config: go test ./cmd/sidenote/internal/config -run Page -update -->
`

// Page returns the reference of all keys, in Markdown. It panics if the table describes a key that
// does not exist.
func Page() string {
	fields := map[string]strictyaml.Field{}
	collect(fields, "", reflect.TypeFor[Config]())
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

// collect adds the keys below a key to fields, by their names in the table.
func collect(fields map[string]strictyaml.Field, key string, t reflect.Type) {
	switch {
	case t == reflect.TypeFor[Filter]() || kind(t, "") != "map":
	case t.Kind() == reflect.Map:
		collect(fields, key+".NAME", t.Elem())
	case t.Kind() == reflect.Struct:
		for _, f := range strictyaml.Fields(t) {
			at := strictyaml.Join(key, f.Key)
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
	case reflect.TypeFor[Secret]():
		return "secret"
	case reflect.TypeFor[RedisURL](), reflect.TypeFor[ProxyURL]():
		return "URL or secret"
	case reflect.TypeFor[Login]():
		return "text or secret"
	case reflect.TypeFor[command]():
		return "text or list"
	case reflect.TypeFor[engineURLs](), reflect.TypeFor[baseURLs]():
		return "URL or list"
	case reflect.TypeFor[Ports]():
		return "address or list"
	case reflect.TypeFor[filterAttributes](), reflect.TypeFor[metadata]():
		return "map of values"
	case reflect.TypeFor[claimValues]():
		return "value or list"
	case reflect.TypeFor[Chain]():
		return "preset or list"
	case reflect.TypeFor[Name]():
		return "name"
	case reflect.TypeFor[Count]():
		return ranged("number")
	case reflect.TypeFor[Bytes]():
		return ranged("size")
	case reflect.TypeFor[time.Duration](), reflect.TypeFor[days]():
		return ranged("duration")
	case reflect.TypeFor[USD](), reflect.TypeFor[price]():
		return ranged("USD")
	case reflect.TypeFor[Date]():
		return "date"
	case reflect.TypeFor[percentage]():
		return "0% to 100%"
	case reflect.TypeFor[temperature](), reflect.TypeFor[weight](), reflect.TypeFor[threshold](), reflect.TypeFor[relevance](), reflect.TypeFor[Priority]():
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
