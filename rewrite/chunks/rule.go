package chunks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Rule is a Renderer that a policy writes down. Check tells whether it can be used.
type Rule struct {
	When       When
	As         Role // of the message; "" is what the table gives the chunk
	Tag        string
	Attributes []Shown // nil is the id
	// Body is "text" or "", for the content as it is, "json", for the content as JSON, or a
	// template that holds {{content}}, {{metadata.KEY}} or the name of another field in braces.
	Body string
}

// A When says which chunks a Rule renders: those that have all that it names. Values of the
// metadata are compared as attributes show them, so "true" and true are equal. A
// map[string]any takes objects that have all of its keys, with values that it takes; a []any
// takes lists of the same length, element by element.
type When struct {
	Type            Type
	Subtype, Action string
	Metadata        map[string]any
}

// Shown is an attribute of a Rule and where its value comes from: the name of a field of a
// chunk (id, type, role, action, subtype, priority or created_at), or metadata.KEY. A From of
// "" looks for the attribute's own name among the fields and then in the metadata.
type Shown struct{ Name, From string }

// TagsOf returns the tags that rules write.
func TagsOf(rules []Rule) (names []string) {
	for i := range rules {
		names = append(names, rules[i].Tag)
	}
	return names
}

// The two bodies that are no templates.
const (
	bodyText = "text"
	bodyJSON = "json"
)

const inMetadata = "metadata."

// fields are the fields that attributes and templates may name.
func fields() []string {
	return []string{"id", "type", "role", "action", "subtype", "priority", "created_at"}
}

// Check refuses a rule that could not be used. The error is an *Error that names the field.
func (r *Rule) Check() error {
	if t := r.When.Type; t != "" && !t.known() {
		return wrong("when.type", "%.40q is not a type; use %s", t, typeNames())
	}
	if r.As != "" && !r.As.known() {
		return wrong("role", "%.40q is not a role; use system, user or assistant", r.As)
	}
	if r.Tag == "" {
		return wrong("tag", "missing")
	}
	if err := CheckTag(r.Tag); err != nil {
		return err
	}
	var names []string
	for i, a := range r.Attributes {
		at := fmt.Sprintf("attributes[%d]", i)
		switch {
		case !legalName(a.Name):
			return wrong(at, "%.80q is not a legal name: 1 to 64 ASCII letters, digits, '_', '-' and '.', a letter first and no sign last", a.Name)
		case slices.Contains(names, a.Name):
			return wrong(at, "%q stands twice", a.Name)
		case a.From != "" && !isSource(a.From):
			return wrong(at+"."+a.Name, "%.80q is neither a field (%s) nor metadata.KEY", a.From, strings.Join(fields(), ", "))
		}
		names = append(names, a.Name)
	}
	if r.template() {
		return checkTemplate(r.Body)
	}
	return nil
}

func isSource(name string) bool {
	key, ok := strings.CutPrefix(name, inMetadata)
	return ok && key != "" || slices.Contains(fields(), name)
}

// checkTemplate refuses double braces that are no placeholder, because they would reach the
// model as they are, and a template without any.
func checkTemplate(text string) error {
	holes := 0
	for rest := text; ; holes++ {
		_, behind, found := strings.Cut(rest, "{{")
		if !found {
			break
		}
		name, behind, closed := strings.Cut(behind, "}}")
		if !closed || name != "content" && !isSource(name) {
			return wrong("body", "{{%.40s}} is no placeholder; use content, %s or metadata.KEY in double braces", name, strings.Join(fields(), ", "))
		}
		rest = behind
	}
	if holes == 0 {
		return wrong("body", "%.40q is neither text, json nor a template with {{content}} or another placeholder", text)
	}
	return nil
}

// template tells whether the body is one.
func (r *Rule) template() bool { return r.Body != "" && r.Body != bodyText && r.Body != bodyJSON }

// CanRender tells whether the chunk has all that When names.
func (r *Rule) CanRender(c *Chunk) bool {
	w := &r.When
	if w.Type != "" && w.Type != c.Type || w.Subtype != "" && w.Subtype != c.Subtype || w.Action != "" && w.Action != c.Action {
		return false
	}
	for key, want := range w.Metadata {
		have, has := c.Metadata[key]
		if !has {
			return false
		}
		switch want.(type) {
		case map[string]any, []any:
			if !takes(want, plain(have)) {
				return false
			}
		default:
			if c.metadata(key) != shown(want) {
				return false
			}
		}
	}
	return true
}

// takes reports whether a value of a When takes one of the metadata.
func takes(want, have any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		for key, value := range want {
			if v, has := have[key]; !ok || !has || !takes(value, v) {
				return false
			}
		}
		return ok
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) != len(want) {
			return false
		}
		for i := range want {
			if !takes(want[i], have[i]) {
				return false
			}
		}
		return true
	}
	switch have.(type) {
	case map[string]any, []any:
		return false
	}
	return shown(want) == shown(have)
}

// shown returns a value as attributes show it.
func shown(v any) string {
	c := Chunk{Metadata: map[string]any{"": v}}
	return c.metadata("")
}

// plain returns a value in the types that Parse gives values of JSON.
func plain(v any) any {
	switch v.(type) {
	case nil, string, bool, json.Number, map[string]any, []any:
		return v
	}
	text, err := marshal(v)
	if err != nil {
		return nil
	}
	return decoded(text)
}

// Role returns the rule's role, or that of the table.
func (r *Rule) Role(c *Chunk) Role {
	if r.As != "" {
		return r.As
	}
	return rowOf(c).role
}

// Render returns the element.
func (r *Rule) Render(c *Chunk) Element {
	shown := r.Attributes
	if shown == nil {
		shown = []Shown{{Name: "id"}}
	}
	e := Element{Tag: r.Tag, Body: r.body(c), Attributes: make([]Attribute, 0, len(shown))}
	for _, a := range shown {
		value := ""
		if a.From == "" {
			value = c.attribute(a.Name)
		} else {
			value = c.source(a.From)
		}
		if value != "" {
			e.Attributes = append(e.Attributes, Attribute{a.Name, value})
		}
	}
	return e
}

// source returns the value of a field or of metadata.KEY.
func (c *Chunk) source(name string) string {
	if key, ok := strings.CutPrefix(name, inMetadata); ok {
		return c.metadata(key)
	}
	return c.attribute(name)
}

func (r *Rule) body(c *Chunk) Content {
	switch {
	case r.Body == bodyJSON:
		return c.Content.asJSON()
	case !r.template():
		return c.Content
	}
	var out strings.Builder
	for rest := r.Body; rest != ""; {
		text, behind, found := strings.Cut(rest, "{{")
		out.WriteString(text)
		if !found {
			break
		}
		name, behind, _ := strings.Cut(behind, "}}")
		if name == "content" {
			out.WriteString(c.Content.revealed())
		} else {
			out.WriteString(c.source(name))
		}
		rest = behind
	}
	return Text(out.String())
}
