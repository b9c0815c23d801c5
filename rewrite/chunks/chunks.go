// Package chunks turns an agent's typed memory into chat messages.
//
// A Builder renders each Chunk as an XML element, joins consecutive elements of one role into a
// message, and fits the messages into an exact token budget. The package knows nothing of HTTP,
// requests, sources or policy files. README.md has the table of types, tags and roles.
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

// A Type is the kind of a chunk; it determines the tag and the role.
type Type string

// The types.
const (
	System      Type = "system"       // instructions of the operator
	Agent       Type = "agent"        // a turn of the conversation, user or assistant by Role
	Workflow    Type = "workflow"     // a tool or skill call
	Delegation  Type = "delegation"   // messages to and from other agents
	Environment Type = "environment"  // the result of a tool or skill
	WorkingFlow Type = "working_flow" // summaries, thoughts, to-do lists, interventions
	Output      Type = "output"       // how the task ended
	Custom      Type = "custom"       // anything else
)

// Types returns all types, in table order.
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

// A Chunk is one entry of an agent's memory. ID, Type and Content are required, and Role for an
// Agent.
type Chunk struct {
	ID         string // unique; 1 to 128 printable characters without < > & "
	Type       Type
	Role       string // user or assistant for an Agent; otherwise it helps to select the tag
	Action     string
	Subtype    string
	Content    Content
	Priority   json.Number // a whole number; "" means DefaultPriority. Higher is kept longer under FitPriority
	NoTruncate bool        // must not be cut (truncatable: false)
	CreatedAt  string      // only shown; chunks are ordered as in the list

	// Metadata holds values to show as attributes: tool, call_id, status and others. Strings are
	// shown as they are, nil not at all, anything else as JSON. Parse decodes JSON as string,
	// bool, json.Number, map[string]any, []any or nil.
	Metadata map[string]any

	texts map[string]string // original JSON of the objects and lists in Metadata, as read by Parse
}

// DefaultPriority is the priority of chunks that set none.
const DefaultPriority = 70

// A Content is a text or a JSON value; the zero Content is neither.
type Content struct {
	text string
	form form
}

type form byte

const (
	missing form = iota
	plainText
	jsonValue // compact, otherwise byte for byte as given
)

// Text returns s as a Content.
func Text(s string) Content { return Content{s, plainText} }

// JSON returns a JSON value as a Content. It removes white space outside of strings; all other
// bytes are unchanged.
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

// asJSON returns the content as JSON: a text becomes a JSON string.
func (c Content) asJSON() Content {
	if c.form == jsonValue {
		return c
	}
	return Content{quote(c.text), jsonValue}
}

// An Error is the caller's mistake in chunks, options or rules.
type Error struct {
	Param  string // such as "chunks[3].role", "context.fit" or "tag"
	Reason string // human-readable, with the value
}

func (e *Error) Error() string { return e.Param + ": " + e.Reason }

func wrong(param, format string, args ...any) error {
	return &Error{param, fmt.Sprintf(format, args...)}
}

// field returns the Param for a field of chunk i.
func field(i int, name string) string { return fmt.Sprintf("chunks[%d].%s", i, name) }

// check returns an error if the chunk, number i of its list, cannot be rendered.
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

// maxID is the maximum length of an id in characters. An attribute shows 200 of them, so
// different ids look different.
const maxID = 128

// validID reports whether an attribute shows s unchanged.
func validID(s string) bool {
	if len(s) <= maxID && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '<' || r == '>' || r == '&' || r == '"' }) < 0 {
		return true // the common case
	}
	n, before, plain := 0, ' ', true
	for _, r := range s {
		if r == ' ' && before == ' ' || r == unicode.ReplacementChar || !unicode.IsPrint(r) || strings.ContainsRune(`<>&"`, r) {
			return false
		}
		n, before, plain = n+1, r, plain && r < utf8.RuneSelf
	}
	return n <= maxID && before != ' ' && (plain || tags.Vocabulary{}.Count(s) == 0) // characters that look like tag brackets are not ASCII
}

func wholeNumber(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// typeNames lists the types for error messages.
func typeNames() string {
	var names []string
	for _, t := range Types() {
		names = append(names, string(t))
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// LastOfUser returns the last user turn among the chunks, "" if there is none.
func LastOfUser(list []Chunk) string {
	for _, c := range slices.Backward(list) {
		if c.Type == Agent && c.Role == string(RoleUser) {
			return c.Content.String()
		}
	}
	return ""
}

// attribute returns the value of the attribute name: the field of the chunk, or else its
// metadata; "" if neither is set.
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

// metadata returns a metadata value as text, "" if it is not set.
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
			return text // keeps the order of its keys
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
