package extract

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/tidwall/gjson"
)

const (
	// yamlPiece is the size in bytes of the pieces in which YAML is parsed: the parser takes time
	// faster than in proportion to the size, and quadratic in the nesting depth.
	yamlPiece = 16 << 10
	// maxYAMLPiece is the limit on a piece that cannot be divided at its keys.
	maxYAMLPiece    = 256 << 10
	maxOpenAPIDepth = 60
)

// openAPIInYAML reads a description in YAML; ok is false for other files. A file with aliases is
// read as YAML, because these may stand for any amount of text.
func openAPIInYAML(text string) (d Document, ok bool) {
	// A panic on hostile text must not end the process.
	defer func() {
		if recover() != nil {
			d, ok = Document{}, false
		}
	}()
	said := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "openapi:") || strings.HasPrefix(line, "swagger:") || strings.HasPrefix(line, "paths:") {
			said++
		}
	}
	if said != 2 || deepYAML(text) {
		return Document{}, false
	}
	lines := strings.Split(strings.TrimPrefix(text, "---\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	entries := yamlEntries(lines)
	var b strings.Builder
	if !yamlToJSON(&b, entries, 0) || !gjson.Valid(b.String()) {
		return Document{}, false
	}
	d, ok = openAPI(gjson.Parse(b.String()))
	d.Name = cmp.Or(nameOfAPI(entries), d.Name)
	return d, ok
}

// yamlToJSON writes the object of entries, piece by piece, and reports whether that was possible.
func yamlToJSON(b *strings.Builder, entries []yamlEntry, depth int) bool {
	b.WriteByte('{')
	first := true
	write := func(members string) {
		if !first && members != "" {
			b.WriteByte(',')
		}
		first = first && members == ""
		b.WriteString(members)
	}
	for i := 0; i < len(entries); {
		e := entries[i]
		if i++; depth < maxOpenAPIDepth && e.key != "" && e.size() > yamlPiece && e.value() == "" {
			name, _ := json.Marshal(e.key) // a string has no error
			write(string(name) + ":")
			if !yamlToJSON(b, yamlEntries(e.lines[e.comments+1:]), depth+1) {
				return false
			}
			continue
		}
		lines, size := e.lines, e.size()
		for ; i < len(entries) && size+entries[i].size() <= yamlPiece; i++ {
			lines, size = append(slices.Clip(lines), entries[i].lines...), size+entries[i].size()
		}
		if size > maxYAMLPiece {
			return false
		}
		raw, err := yaml.YAMLToJSON([]byte(strings.Join(unindented(lines), "\n")))
		raw = bytes.TrimSpace(raw)
		if err != nil || len(raw) < 2 || raw[0] != '{' {
			if string(raw) == "null" { // comments
				continue
			}
			return false
		}
		write(string(bytes.TrimSpace(raw[1 : len(raw)-1])))
	}
	b.WriteByte('}')
	return b.Len() <= MaxText
}

// deepYAML reports whether a text may have aliases, or may be nested too deeply.
func deepYAML(text string) bool {
	flow := 0
	for line := range strings.Lines(text) {
		content := strings.TrimLeft(line, " ")
		if len(line)-len(content) > 4*maxOpenAPIDepth || strings.HasPrefix(content, "- - - -") || strings.HasPrefix(content, "? ") {
			return true
		}
		for i := range len(content) {
			switch content[i] {
			case '[', '{':
				flow++
			case ']', '}':
				flow = max(0, flow-1)
			case '*':
				if isAlias(content, i) {
					return true
				}
			}
		}
		if flow > maxOpenAPIDepth {
			return true
		}
	}
	return false
}

// isAlias reports whether an asterisk in a line may begin an alias: it is where a value begins.
func isAlias(line string, at int) bool {
	if at+1 == len(line) || line[at+1] <= ' ' || line[at+1] == '*' {
		return false
	}
	before := strings.TrimRight(line[:at], " ")
	return before == "" || strings.IndexByte(":-[,{", before[len(before)-1]) >= 0
}

// nameOfAPI returns the title and version of a description in YAML as they are written: 1.10.
func nameOfAPI(entries []yamlEntry) string {
	for _, e := range entries {
		if e.key == "info" {
			info := yamlEntries(e.lines[e.comments+1:])
			if title, version := yamlScalar(info, "title"), yamlScalar(info, "version"); title != "" && strings.Trim(title+version, "|>&") == title+version {
				return oneLine(title + " " + version)
			}
		}
	}
	return ""
}

// An apiReader writes an OpenAPI description, 2.0 to 3.1: an operation is a section with its
// parameters and responses, a schema is a section with its properties.
type apiReader struct {
	out   strings.Builder
	parts map[string]gjson.Result // of its components, by reference
}

// apiMethods are the methods that a path may have, in the order of the specification.
var apiMethods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// openAPI returns the text of a description; ok is false for other values.
func openAPI(root gjson.Result) (d Document, ok bool) {
	if root.Get("openapi").Type != gjson.String && root.Get("swagger").Type != gjson.String {
		return Document{}, false
	}
	r := apiReader{parts: map[string]gjson.Result{}}
	var info, servers, paths, schemas gjson.Result
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "paths":
			paths = value
		case "info":
			info = value
		case "servers":
			servers = value
		case "components":
			value.ForEach(func(kind, list gjson.Result) bool {
				if r.index("#/components/"+kind.Str, list); kind.Str == "schemas" {
					schemas = list
				}
				return true
			})
		case "definitions":
			schemas = value
			fallthrough
		case "parameters", "responses":
			r.index("#/"+key.Str, value)
		}
		return true
	})
	if !paths.IsObject() || !info.IsObject() {
		return Document{}, false
	}
	title := strings.TrimSpace(info.Get("title").String() + " " + info.Get("version").String())
	r.text(info.Get("description").String())
	servers.ForEach(func(_, server gjson.Result) bool {
		r.line("Server: "+server.Get("url").String(), server.Get("description").String())
		return true
	})
	if at := root.Get("host").String() + root.Get("basePath").String(); at != "" { // 2.0
		r.line("Server: "+at, "")
	}
	paths.ForEach(func(path, item gjson.Result) bool {
		item.ForEach(func(method, operation gjson.Result) bool {
			if slices.Contains(apiMethods, method.Str) {
				r.operation(strings.ToUpper(method.Str)+" "+path.Str, item, operation)
			}
			return r.out.Len() <= MaxText
		})
		return r.out.Len() <= MaxText
	})
	schemas.ForEach(func(name, schema gjson.Result) bool {
		r.schema(name.Str, schema)
		return r.out.Len() <= MaxText
	})
	text := strings.TrimSpace(strings.ReplaceAll(lineFeeds(r.out.String()), "\x00", "")) + "\n"
	return Document{Name: oneLine(strings.ReplaceAll(title, "\x00", "")), Text: text, Form: Markdown}, r.out.Len() <= MaxText
}

func (r *apiReader) index(prefix string, list gjson.Result) {
	list.ForEach(func(name, value gjson.Result) bool {
		r.parts[prefix+"/"+name.Str] = value
		return true
	})
}

// resolve follows one reference to a component.
func (r *apiReader) resolve(value gjson.Result) gjson.Result {
	if ref := value.Get("$ref"); ref.Exists() {
		if part, ok := r.parts[ref.Str]; ok {
			return part
		}
	}
	return value
}

// text writes a description, which is Markdown. Its headings become bold, as they are below others.
func (r *apiReader) text(description string) {
	description = strings.TrimSpace(shownMarkdown(lineFeeds(description), false))
	if description == "" {
		return
	}
	fenced := false
	for line := range strings.Lines(description) {
		fenced = fenced != (fenceOf(line) != "")
		if title := strings.TrimLeft(line, "#"); !fenced && title != line && strings.HasPrefix(title, " ") {
			line = "**" + strings.TrimSpace(title) + "**\n"
		}
		r.out.WriteString(line)
	}
	r.out.WriteString("\n\n")
}

// line writes a line, and a description after it.
func (r *apiReader) line(text, description string) {
	if description = oneLine(description); description != "" {
		text += ": " + description
	}
	r.out.WriteString(oneLine(text) + "\n\n")
}

// operation writes the section of an operation. The parameters of its path are also its own.
func (r *apiReader) operation(name string, item, operation gjson.Result) {
	heading := sectionMark + name
	if summary := oneLine(operation.Get("summary").String()); summary != "" {
		heading += ": " + summary
	}
	r.out.WriteString(oneLine(heading) + "\n\n")
	if operation.Get("deprecated").Bool() {
		r.line("Deprecated.", "")
	}
	r.text(operation.Get("description").String())
	for _, of := range []struct{ name, key string }{{"Operation", "operationId"}, {"Tags", "tags"}} {
		if shown := strings.Join(textsOf(operation.Get(of.key)), ", "); shown != "" {
			r.line(of.name+": "+shown, "")
		}
	}
	var parameters []string
	for _, list := range []gjson.Result{item.Get("parameters"), operation.Get("parameters")} {
		list.ForEach(func(_, p gjson.Result) bool {
			p = r.resolve(p)
			kind := cmp.Or(p.Get("schema").Raw, p.Raw)
			parameters = append(parameters, field(p.Get("name").String(), p.Get("description").String(),
				p.Get("in").String(), required(p.Get("required").Bool()), schemaType(gjson.Parse(kind))))
			return true
		})
	}
	r.list("Parameters", parameters)
	body := r.resolve(operation.Get("requestBody"))
	r.list("Body", r.contents(body))
	var responses []string
	operation.Get("responses").ForEach(func(status, response gjson.Result) bool {
		response = r.resolve(response)
		shown := strings.Join(r.contents(response), ", ")
		if schema := response.Get("schema"); schema.Exists() { // 2.0
			shown = schemaType(schema)
		}
		description := response.Get("description").String()
		responses = append(responses, field(status.String(), description, strings.TrimPrefix(shown, description+": ")))
		return true
	})
	r.list("Responses", responses)
}

// contents returns the media types of a body, with the types of their values.
func (r *apiReader) contents(body gjson.Result) (list []string) {
	body.Get("content").ForEach(func(media, content gjson.Result) bool {
		list = append(list, field(media.Str, "", schemaType(content.Get("schema"))))
		return true
	})
	if description := body.Get("description").String(); description != "" && len(list) > 0 && body.Get("required").Exists() {
		list[0] += ": " + oneLine(description)
	}
	return list
}

// list writes items under a name.
func (r *apiReader) list(name string, items []string) {
	if len(items) == 0 {
		return
	}
	r.out.WriteString(name + ":\n")
	for _, item := range items {
		r.out.WriteString("- " + item + "\n")
	}
	r.out.WriteByte('\n')
}

// schema writes the section of a schema.
func (r *apiReader) schema(name string, schema gjson.Result) {
	r.out.WriteString(oneLine(sectionMark+"Schema "+name) + "\n\n")
	r.text(schema.Get("description").String())
	needed := map[string]bool{}
	schema.Get("required").ForEach(func(_, key gjson.Result) bool {
		needed[key.Str] = true
		return true
	})
	var fields []string
	schema.Get("properties").ForEach(func(key, value gjson.Result) bool {
		fields = append(fields, field(key.Str, value.Get("description").String(), schemaType(value), required(needed[key.Str])))
		return true
	})
	if r.list("Properties", fields); len(fields) == 0 {
		r.line("Type: "+schemaType(schema), "")
	}
}

// textsOf returns a string, or the strings in a list.
func textsOf(value gjson.Result) (list []string) {
	for _, v := range value.Array() {
		if v.Type == gjson.String {
			list = append(list, v.Str)
		}
	}
	return list
}

func required(yes bool) string {
	if yes {
		return "required"
	}
	return ""
}

// field returns a name with what is known of it: "id (path, required, integer): The id."
func field(name, description string, facts ...string) string {
	facts = slices.DeleteFunc(facts, func(fact string) bool { return fact == "" })
	if len(facts) > 0 {
		name += " (" + strings.Join(facts, ", ") + ")"
	}
	if description = oneLine(description); description != "" {
		name += ": " + description
	}
	return oneLine(name)
}

const (
	// maxEnum is how many values of a type are named.
	maxEnum = 20
	// maxKindDepth is how many types within types are named.
	maxKindDepth = 3
)

// schemaType returns the type of a schema in words, such as "array of Pet" or "string: a | b".
func schemaType(schema gjson.Result) string { return typeWithin(schema, 0) }

func typeWithin(schema gjson.Result, depth int) string {
	if depth > maxKindDepth {
		return "…"
	}
	if ref := schema.Get("$ref").String(); ref != "" {
		return ref[strings.LastIndexByte(ref, '/')+1:]
	}
	for _, of := range []struct{ key, word string }{{"oneOf", " or "}, {"anyOf", " or "}, {"allOf", " and "}} {
		var kinds []string
		schema.Get(of.key).ForEach(func(_, part gjson.Result) bool {
			kinds = append(kinds, typeWithin(part, depth+1))
			return len(kinds) < maxEnum
		})
		if len(kinds) > 0 {
			return strings.Join(kinds, of.word)
		}
	}
	kind := schema.Get("type").String()
	if schema.Get("type").IsArray() { // 3.1
		var kinds []string
		schema.Get("type").ForEach(func(_, part gjson.Result) bool {
			kinds = append(kinds, part.String())
			return len(kinds) < maxEnum
		})
		kind = strings.Join(kinds, " or ")
	}
	if kind == "array" {
		return strings.TrimSuffix("array of "+typeWithin(schema.Get("items"), depth+1), " of ")
	}
	if format := schema.Get("format").String(); format != "" {
		kind += " " + format
	}
	var values []string
	schema.Get("enum").ForEach(func(_, value gjson.Result) bool {
		values = append(values, value.String())
		return len(values) < maxEnum
	})
	if len(values) > 0 {
		kind += ": " + strings.Join(values, " | ")
	}
	if standard := schema.Get("default"); standard.Exists() && standard.Type != gjson.JSON {
		kind += fmt.Sprintf(", default %s", standard.String())
	}
	return kind
}
