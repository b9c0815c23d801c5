package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/strictyaml"
	filtering "sidenote/retrieval/filter"
	"sidenote/rewrite"
	"sidenote/rewrite/staged"
)

// An object is a JSON schema, or a part of one.
type object = map[string]any

// A builder makes schemas of Go types. invopop/jsonschema could replace only the walk over structs
// and maps, 36 of the 238 lines of code here: scalars may also be texts or variables, and
// limits, defaults and descriptions belong to a key, not to a type. With the schemas of all types
// passed to it, 61 of the 1,517 objects of the schema come out as they are here.
type builder struct{ about descriptions }

// JSONSchema returns the JSON Schema of a configuration file.
func JSONSchema() ([]byte, error) {
	root := builder{describeKeys()}.structure("", reflect.TypeFor[Config]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Sidenote configuration"
	root["$defs"] = object{"variable": variable(), "secret": secret(), "filter": filterComparison(), "name": text(name)}
	out, err := json.MarshalIndent(root, "", "  ")
	return append(out, '\n'), err
}

// variable returns the schema of {env: NAME, default: x} in place of a scalar.
func variable() object {
	return object{
		"type": "object", "required": []string{"env"}, "additionalProperties": false,
		"properties":  object{"env": described("Name of the variable.", text(`\S`)), "default": described("Value if the variable is not set.", text(`\S`))},
		"description": "The value of an environment variable, or the default if it is not set.",
	}
}

func secret() object {
	return object{
		"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
		"properties":  object{"env": described("Name of the variable.", text(`\S`)), "file": described("Path of the file; it is read again when it changes.", text(`\S`))},
		"description": "A secret, read from an environment variable or a file.",
	}
}

// filterComparison returns the schema of a filter of OpenAI's vector stores: one comparison, or
// several combined.
func filterComparison() object {
	return object{
		"type": "object", "required": []string{"type"}, "additionalProperties": false,
		"properties": object{
			"type":    described("Comparison of an attribute: eq, ne, gt, gte, lt, lte, in, nin, prefix; or and, or to combine filters.", object{"enum": filtering.Types()}),
			"key":     described("Name of the attribute.", object{"type": "string"}),
			"value":   described("Value to compare with; ${claims.NAME} is a claim of the caller's token.", orVariable(object{"type": []string{"string", "number", "boolean", "array"}})),
			"filters": described("Filters to combine.", object{"type": "array", "minItems": 1, "items": ref("filter")}),
		},
	}
}

// orVariable returns the schema of a value, or of a variable that supplies it.
func orVariable(one object) object { return object{"anyOf": []object{one, ref("variable")}} }

func ref(name string) object { return object{"$ref": "#/$defs/" + name} }

// text returns the schema of any scalar whose text matches a pattern; quotes do not matter.
func text(pattern string) object {
	return object{"type": []string{"string", "number", "boolean"}, "pattern": pattern}
}

// Patterns of scalars, as their decoders accept them.
const (
	name     = `^[a-z0-9_-]{1,64}$`
	count    = `^[0-9]+\s*(k|M)?\s*$`
	size     = `^[0-9]+\s*(B|KiB|MiB|GiB|kB|KB|MB|GB)?\s*$`
	inDays   = `^[0-9]+d$`
	duration = `^\+?([0-9]*(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h))+$`
	digest   = `^[0-9A-Fa-f]{64}$`
	date     = `^[0-9]{4}-[0-9]{2}-[0-9]{2}$`
)

// value returns the schema of a value of type t, restricted by tag, at a key.
func (b builder) value(key string, t reflect.Type, tag reflect.StructTag) object {
	switch t {
	case reflect.TypeFor[Secret]():
		return ref("secret")
	case reflect.TypeFor[RedisURL](), reflect.TypeFor[ProxyURL](), reflect.TypeFor[Login]():
		return object{"anyOf": []object{{"type": "string"}, ref("secret")}}
	case reflect.TypeFor[Audit]():
		return object{"anyOf": []object{{"enum": []string{auditStderr}}, b.structure(key, t)}}
	case reflect.TypeFor[Ports]():
		one := b.value(key+"[]", t.Elem(), "")
		return object{"anyOf": []object{one, ref("variable"), {"type": "array", "minItems": 1, "items": one}}}
	case reflect.TypeFor[baseURLs]():
		one := b.value(key, reflect.TypeFor[baseURL](), "")
		return object{"anyOf": []object{one, {"type": "array", "minItems": 1, "items": one}}}
	case reflect.TypeFor[command]():
		one := b.value(key, reflect.TypeFor[string](), "")
		return object{"anyOf": []object{one, {"type": "array", "minItems": 1, "items": one}}}
	case reflect.TypeFor[engineURLs]():
		one := orVariable(text(`://`))
		return object{"anyOf": []object{one, {"type": "array", "minItems": 1, "items": one}}}
	case reflect.TypeFor[Bases]():
		return object{"anyOf": []object{text(`[/\\.~]`), b.mapOf(key, t)}}
	case reflect.TypeFor[Filter]():
		return ref("filter")
	case reflect.TypeFor[filterAttributes]():
		return object{"type": "object", "minProperties": 1, "additionalProperties": orVariable(object{"type": []string{"string", "number", "boolean", "array"}})}
	case reflect.TypeFor[metadata]():
		return object{"type": "object", "minProperties": 1, "additionalProperties": orVariable(object{"type": []string{"string", "number", "boolean", "object", "array"}})}
	case reflect.TypeFor[attribute]():
		return object{"anyOf": []object{text(`\S`), {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": text(`\S`)}}}
	case reflect.TypeFor[Tools]():
		whole := b.structure(key, t)
		return object{"anyOf": []object{b.value(key+".offer", strictyaml.Fields(t)[0].Type, strictyaml.Fields(t)[0].Tag), whole}}
	case reflect.TypeFor[Skip]():
		rules := strictyaml.Fields(t)[1]
		return object{"anyOf": []object{b.value(key+".rules", rules.Type, rules.Tag), {"enum": []string{on, Off}}, b.structure(key, t)}}
	case reflect.TypeFor[Record]():
		return object{"anyOf": []object{{"enum": []string{Off}}, b.structure(key, t)}}
	case reflect.TypeFor[Stages]():
		whole := b.structure(key, t)
		return object{"anyOf": []object{b.value(key+".chain", reflect.TypeFor[Chain](), ""), whole}}
	case reflect.TypeFor[Chain]():
		list := b.value(key, reflect.TypeFor[[]stage](), "")
		list["maxItems"] = staged.MaxStages
		return object{"anyOf": []object{{"enum": staged.Presets()}, ref("variable"), list}}
	case reflect.TypeFor[claimValues]():
		one := object{"type": []string{"string", "number", "boolean"}}
		return object{"anyOf": []object{one, {"type": "array", "minItems": 1, "items": one}}}
	}
	if isScalar(t) {
		return orVariable(scalar(t, tag))
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.withPlain(key, t)
	case reflect.Map:
		return b.mapOf(key, t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			key += "[]"
		}
		return object{"type": "array", "minItems": 1, "items": b.value(key, t.Elem(), tag)}
	}
	panic("BUG: the configuration holds a " + t.String())
}

// mapOf returns the schema of a map whose keys the file chooses.
func (b builder) mapOf(key string, t reflect.Type) object {
	all := object{"type": "object", "minProperties": 1, "additionalProperties": b.value(key+".NAME", t.Elem(), "")}
	if t.Key() == reflect.TypeFor[Name]() {
		all["propertyNames"] = ref("name")
	}
	return all
}

func isScalar(t reflect.Type) bool {
	kinds := []reflect.Kind{reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64}
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) || slices.Contains(kinds, t.Kind())
}

// structure returns the schema of a map with the keys of a struct.
func (b builder) structure(key string, t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range strictyaml.Fields(t) {
		at := strictyaml.Join(key, f.Key)
		properties[f.Key] = b.about.describe(b.value(at, f.Type, f.Tag), at, unit(f.Type, f.Tag))
		if f.Needed() {
			required = append(required, f.Key)
		}
	}
	out := object{"type": "object", "minProperties": 1, "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// withPlain returns the schema of a map, or of its first field alone where the decoder accepts
// that.
func (b builder) withPlain(key string, t reflect.Type) object {
	fields, whole := strictyaml.Fields(t), b.structure(key, t)
	first := fields[0]
	if first.Type == reflect.TypeFor[RedisURL]() {
		return object{"anyOf": []object{{"type": "string"}, whole}}
	}
	if k := first.Type.Kind(); k == reflect.Slice || k == reflect.Map || slices.ContainsFunc(fields[1:], strictyaml.Field.Needed) || !isScalar(first.Type) {
		return whole
	}
	return object{"anyOf": []object{scalar(first.Type, first.Tag), whole}}
}

// scalar returns the schema of a scalar written in the file itself.
func scalar(t reflect.Type, tag reflect.StructTag) object {
	if words := tag.Get("of"); words != "" {
		return object{"enum": strings.Split(words, "|")}
	}
	switch t {
	case reflect.TypeFor[Name]():
		return ref("name")
	case reflect.TypeFor[Digest]():
		return text(digest)
	case reflect.TypeFor[Date]():
		return text(date)
	case reflect.TypeFor[Count]():
		return limited(count, schemaNumber[Count](tag))
	case reflect.TypeFor[Bytes]():
		return limited(size, schemaNumber[Bytes](tag))
	case reflect.TypeFor[time.Duration]():
		return object{"type": []string{"string", "integer"}, "pattern": duration + "|^[+-]?0$", "minimum": 0, "maximum": 0}
	case reflect.TypeFor[days]():
		return object{"type": "string", "pattern": duration + "|" + inDays}
	case reflect.TypeFor[Priority]():
		return object{"anyOf": []object{{"enum": priorities()}, limited(`^\+?[0-9]+$`, limit{0, 100, true})}}
	case reflect.TypeFor[temperature]():
		return object{"type": []string{"number", "string"}, "minimum": 0, "maximum": 2, "pattern": `^[0-9.eE+_xXpPa-fA-F-]+$`}
	case reflect.TypeFor[percentage]():
		return object{"type": []string{"string", "number"}, "pattern": `^[0-9.eE+_xXpPa-fA-F-]+%$|^[+-]?0+$`, "minimum": 0, "maximum": 0}
	case reflect.TypeFor[weight]():
		return object{"type": []string{"number", "string"}, "exclusiveMinimum": 0, "maximum": 1, "pattern": `^(auto|[0-9.eE+_xXpPa-fA-F-]+)$`}
	case reflect.TypeFor[threshold](), reflect.TypeFor[relevance]():
		return object{"type": []string{"number", "string"}, "exclusiveMinimum": 0, "pattern": `^(auto|[0-9.eE+_xXpPa-fA-F-]+)$`}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"enum": []any{true, false, "true", "false"}}
	case reflect.Int:
		return limited(`^[+-]?[0-9]+$`, schemaNumber[Count](tag))
	}
	return text(`\S`)
}

func priorities() (words []string) {
	for _, word := range []string{"critical", "high", "medium", "low", "optional"} {
		if _, ok := rewrite.NamedPriority(word); ok {
			words = append(words, word)
		}
	}
	return words
}

// A limit is a range of numbers, both ends included.
type limit struct {
	least, most int64
	ok          bool
}

// schemaNumber returns the limits of a field. A text with a unit is not compared with them.
func schemaNumber[T ~int64, P interface {
	*T
	encoding.TextUnmarshaler
}](tag reflect.StructTag) limit {
	var least, most T
	lo, hi := tag.Get("min"), tag.Get("max")
	if lo == "" {
		return limit{}
	}
	if P(&least).UnmarshalText([]byte(lo)) != nil || P(&most).UnmarshalText([]byte(hi)) != nil {
		panic(fmt.Sprintf("BUG: limits %s, %s", lo, hi))
	}
	return limit{int64(least), int64(most), true}
}

// limited returns the schema of a whole number in a range, or a text of one.
func limited(pattern string, l limit) object {
	out := object{"type": []string{"integer", "string"}, "pattern": pattern}
	if l.ok {
		out["minimum"], out["maximum"] = l.least, l.most
	}
	return out
}

// unit describes how values of a type are written, and their range.
func unit(t reflect.Type, tag reflect.StructTag) string {
	text, as := "", ""
	switch t {
	case reflect.TypeFor[time.Duration]():
		text, as = "a duration", "300ms, 5s or 10m"
	case reflect.TypeFor[days]():
		text, as = "a duration", "7d or 12h"
	case reflect.TypeFor[Bytes]():
		text, as = "a size", "64MiB"
	case reflect.TypeFor[Count]():
		text, as = "a whole number", "200, 10k or 2M"
	case reflect.TypeFor[Date]():
		return "a day, as in 2027-01-31"
	default:
		return ""
	}
	if least, most := tag.Get("min"), tag.Get("max"); least != "" {
		text += " from " + least + " to " + most
	}
	return text + ", as in " + as
}

// described adds a description to a schema.
func described(text string, one object) object {
	one["description"] = text
	return one
}
