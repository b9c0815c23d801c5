package chunks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Rule is a Renderer configured in a policy. Check reports whether it is valid.
type Rule struct {
	When       When
	As         Role // role of the message; "" means the table's
	Tag        string
	Attributes []AttributeRule // nil means the id only
	// Body is "text" or "", for the content as it is; "json", for the content as JSON; or a
	// template with {{content}}, {{metadata.KEY}} or the name of another field in braces.
	Body string
}

// A When selects the chunks that a Rule renders: all fields that are set must match. Metadata
// values are compared as attributes show them, so "true" and true are equal. A map[string]any
// matches objects that have all of its keys with matching values; a []any matches lists of the
// same length, element by element.
type When struct {
	Type            Type
	Subtype, Action string
	Metadata        map[string]any
}

// AttributeRule is an attribute of a Rule and the source of its value: the name of a chunk's field
// (id, type, role, action, subtype, priority or created_at), or metadata.KEY. If From is "", the
// attribute's own name is looked up among the fields and then in the metadata.
type AttributeRule struct{ Name, From string }

// TagsOf returns the tags that rules write.
func TagsOf(rules []Rule) (names []string) {
	for i := range rules {
		names = append(names, rules[i].Tag)
	}
	return names
}

// The bodies that are not templates.
const (
	bodyText = "text"
	bodyJSON = "json"
)

const inMetadata = "metadata."

// fields returns the names of the fields that attributes and templates may use.
func fields() []string {
	return []string{"id", "type", "role", "action", "subtype", "priority", "created_at"}
}

// Check returns an *Error naming the field if the rule is invalid.
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
			return wrong(at, "%q is repeated", a.Name)
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

// checkTemplate refuses double braces that are no placeholder, because they would reach the model
// as they are, and templates without a placeholder.
func checkTemplate(text string) error {
	holes := 0
	for rest := text; ; holes++ {
		_, behind, found := strings.Cut(rest, "{{")
		if !found {
			break
		}
		name, behind, closed := strings.Cut(behind, "}}")
		if !closed || name != "content" && !isSource(name) {
			return wrong("body", "{{%.40s}} is not a placeholder; use content, %s or metadata.KEY in double braces", name, strings.Join(fields(), ", "))
		}
		rest = behind
	}
	if holes == 0 {
		return wrong("body", "%.40q is neither text, json nor a template with {{content}} or another placeholder", text)
	}
	return nil
}

// template reports whether the body is a template.
func (r *Rule) template() bool { return r.Body != "" && r.Body != bodyText && r.Body != bodyJSON }

// CanRender reports whether the chunk matches When.
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

// takes reports whether the value want of a When matches the metadata value have.
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

// plain converts a value to the types that Parse produces.
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

// Role returns the rule's role or, if not set, the table's.
func (r *Rule) Role(c *Chunk) Role {
	if r.As != "" {
		return r.As
	}
	return rowOf(c).role
}

// Render returns the element of a chunk.
func (r *Rule) Render(c *Chunk) Element {
	shown := r.Attributes
	if shown == nil {
		shown = []AttributeRule{{Name: "id"}}
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
