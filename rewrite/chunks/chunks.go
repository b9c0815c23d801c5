// Package chunks turns an agent's typed memory into chat messages.
//
// A Builder renders each Chunk as an XML element, joins those of one role that follow each
// other into one message, and fits them into an exact budget of tokens. The package knows
// nothing of HTTP, requests, sources or policies' files; the page beside it (README.md) has
// the table of types, tags and roles.
package chunks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sidenote/rewrite/tags"
)

// A Type says what a chunk is; it decides the tag and the role.
type Type string

// The types.
const (
	System      Type = "system"       // what the operator says
	Agent       Type = "agent"        // a turn of the conversation, by Role
	Workflow    Type = "workflow"     // a call of a tool or a skill
	Delegation  Type = "delegation"   // what goes to and comes from other agents
	Environment Type = "environment"  // what a tool or a skill answered
	WorkingFlow Type = "working_flow" // summaries, thoughts, lists of tasks, interventions
	Output      Type = "output"       // how the task ended
	Custom      Type = "custom"       // anything else
)

// Types returns all types, in the order of the table.
func Types() []Type {
	return []Type{System, Agent, Workflow, Delegation, Environment, WorkingFlow, Output, Custom}
}

func (t Type) known() bool { _, ok := table[t]; return ok }

// A Role is the role of a message.
type Role string

// The roles that messages can have.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

func (r Role) known() bool { return r == RoleSystem || r == RoleUser || r == RoleAssistant }

// A Chunk is one entry of an agent's memory. ID, Type and Content must be set, and Role for
// an Agent.
type Chunk struct {
	ID        string // unique; 1 to 128 printable characters without < > & "
	Type      Type
	Role      string // an Agent's, user or assistant; else it helps to choose the tag
	Action    string
	Subtype   string
	Content   Content
	Priority  json.Number // any whole number; "" counts as 70. More is kept longer under FitPriority
	Whole     bool        // never cut: truncatable is false
	CreatedAt string      // shown by renderers that ask for it; the order is that of the list

	// Metadata has what attributes show: tool, call_id, status and others. A string is shown as
	// it is, nil not at all, anything else as JSON. Parse reads JSON as string, bool,
	// json.Number, map[string]any, []any or nil.
	Metadata map[string]any

	texts map[string]string // JSON of the objects and lists in Metadata, as Parse read it
}

// DefaultPriority is the priority of a chunk without one.
const DefaultPriority = 70

// A Content is a text or a JSON value; the zero Content is none.
type Content struct {
	text string
	form form
}

type form byte

const (
	missing form = iota
	plainText
	jsonValue // compact, its tokens as they came
)

// Text returns a text as a Content.
func Text(s string) Content { return Content{s, plainText} }

// JSON returns a JSON value as a Content. White space outside its strings goes; all other
// bytes stay.
func JSON(value []byte) (Content, error) {
	var compact bytes.Buffer
	compact.Grow(len(value))
	if err := json.Compact(&compact, value); err != nil {
		return Content{}, fmt.Errorf("not JSON: %w", err)
	}
	return Content{compact.String(), jsonValue}, nil
}

// String returns the text, or the compact JSON.
func (c Content) String() string { return c.text }

// asJSON returns the content as JSON, a text as a JSON string.
func (c Content) asJSON() Content {
	if c.form == jsonValue {
		return c
	}
	return Content{quote(c.text), jsonValue}
}

// An Error names what is wrong with chunks, options or rules: the caller's mistake.
type Error struct {
	Param  string // "chunks[3].role", "context.fit", "tag"
	Reason string // for people, naming the value
}

func (e *Error) Error() string { return e.Param + ": " + e.Reason }

func wrong(param, format string, args ...any) error {
	return &Error{param, fmt.Sprintf(format, args...)}
}

// field returns the name of a field of the i-th chunk in errors.
func field(i int, name string) string { return fmt.Sprintf("chunks[%d].%s", i, name) }

// check refuses a chunk that cannot be rendered, as the i-th of its list.
func (c *Chunk) check(i int) error {
	switch {
	case c.ID == "":
		return wrong(field(i, "id"), "missing")
	case !validID(c.ID):
		return wrong(field(i, "id"), `%.140q is not an id: 1 to 128 printable characters without < > & " and no space at an end`, c.ID)
	case c.Type == "":
		return wrong(field(i, "type"), "missing; use %s", typeNames())
	case !c.Type.known():
		return wrong(field(i, "type"), "%.40q is not a type; use %s", c.Type, typeNames())
	case c.Type == Agent && c.Role == "":
		return wrong(field(i, "role"), "missing; an agent's is user or assistant")
	case c.Type == Agent && c.Role != string(RoleUser) && c.Role != string(RoleAssistant):
		return wrong(field(i, "role"), "%.40q is not a role of an agent; use user or assistant", c.Role)
	case c.Content.form == missing:
		return wrong(field(i, "content"), "missing")
	case c.Priority != "" && !wholeNumber(string(c.Priority)):
		return wrong(field(i, "priority"), "%.40s is not a whole number", c.Priority)
	}
	return nil
}

// maxID is the greatest length of an id, in characters. An attribute shows 200 of them, so
// ids that differ look different.
const maxID = 128

// validID tells whether an attribute shows s as it is.
func validID(s string) bool {
	if len(s) <= maxID && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '<' || r == '>' || r == '&' || r == '"' }) < 0 {
		return true // as most are
	}
	n, before, plain := 0, ' ', true
	for _, r := range s {
		if r == ' ' && before == ' ' || r == unicode.ReplacementChar || !unicode.IsPrint(r) || strings.ContainsRune(`<>&"`, r) {
			return false
		}
		n, before, plain = n+1, r, plain && r < utf8.RuneSelf
	}
	return n <= maxID && before != ' ' && (plain || tags.Vocabulary{}.Count(s) == 0) // brackets that look like ours are not ASCII
}

func wholeNumber(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// typeNames lists the types in errors.
func typeNames() string {
	var names []string
	for _, t := range Types() {
		names = append(names, string(t))
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// LastOfUser returns the last text that the user says in the chunks, "" without one.
func LastOfUser(list []Chunk) string {
	for _, c := range slices.Backward(list) {
		if c.Type == Agent && c.Role == string(RoleUser) {
			return c.Content.String()
		}
	}
	return ""
}

// attribute returns what an attribute of that name shows: the field of the chunk, or else the
// value in its metadata; "" for nothing.
func (c *Chunk) attribute(name string) string {
	value := ""
	switch name {
	case "id":
		value = c.ID
	case "type":
		value = string(c.Type)
	case "role":
		value = c.Role
	case "action":
		value = c.Action
	case "subtype":
		value = c.Subtype
	case "priority":
		value = string(c.Priority)
	case "created_at":
		value = c.CreatedAt
	}
	if value == "" {
		return c.metadata(name)
	}
	return value
}

// metadata returns the text of a value of the metadata, "" without one.
func (c *Chunk) metadata(key string) string {
	switch v := c.Metadata[key].(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return string(v)
	case json.RawMessage:
		return string(v)
	case bool:
		return fmt.Sprint(v)
	case map[string]any, []any:
		if text := c.texts[key]; text != "" && reflect.DeepEqual(decoded(text), v) {
			return text // with its keys in order
		}
		text, err := marshal(v)
		if err != nil {
			return ""
		}
		return text
	default:
		text, err := marshal(v)
		if err != nil {
			return ""
		}
		return text
	}
}
