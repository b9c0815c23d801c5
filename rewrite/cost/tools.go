package cost

import (
	"strings"

	"sidenote/rewrite/chat"
)

// The formula for tools is that of the OpenAI cookbook ("How to count tokens with
// tiktoken", section 7). It is given for flat schemas; nested ones are counted by the
// same rule at each level, and keywords that it does not cover are counted as text. For
// models without a public tokenizer a list of tools is counted as its JSON text, behind
// a preamble: most chat templates print the JSON.
const (
	functionTokens      = 7  // a function, in o200k_base
	olderFunctionTokens = 10 // in the encodings before it
	propertiesTokens    = 3  // an object's list of properties
	propertyTokens      = 3  // each property
	enumTokens          = -3 // an enum
	enumItemTokens      = 3  // each of its items
	toolsTokens         = 12 // the end of the list
)

// tools counts a list of tools, or of functions in the old form.
func (m *messageWeight) tools() {
	t := toolWeight{m}
	n := 0
	t.Array(func(int) { n++; t.tool() })
	if n > 0 {
		t.text += toolsTokens
	}
}

// A toolWeight is the running count of a list of tools, whose JSON was checked before.
type toolWeight struct{ *messageWeight }

// tool counts a tool: a function, either inside a "function" member or bare; anything
// else is counted as text.
func (t *toolWeight) tool() {
	start, kind := t.Reader, ""
	framed := false
	t.Object(func(name string) {
		switch name {
		case "type":
			kind = t.Text()
		case "function":
			t.function()
			framed = true
		default:
			t.Value()
		}
	})
	switch {
	case framed:
	case kind == "":
		t.Reader = start
		t.function()
	default:
		t.count(string(start.Value()))
	}
}

func (t *toolWeight) function() {
	var name, description string
	t.Object(func(member string) {
		switch member {
		case "name":
			name = t.Text()
		case "description":
			description = t.Text()
		case "parameters":
			t.schema()
		default:
			t.Value()
		}
	})
	t.count(name + ":" + strings.TrimSuffix(description, "."))
	t.text += olderFunctionTokens
	if t.Encoding == "o200k_base" {
		t.text += functionTokens - olderFunctionTokens
	}
}

// schema counts a schema, except its type and description, which it returns.
func (t *toolWeight) schema() (kind, description string) {
	t.Object(func(name string) {
		switch name {
		case "type":
			kind = t.textOrJSON()
		case "description":
			description = t.Text()
		case "enum":
			t.enum()
		case "properties", "$defs", "definitions":
			t.properties()
		case "items", "additionalProperties", "not":
			t.schema()
		case "anyOf", "oneOf", "allOf", "prefixItems":
			t.Array(func(int) { t.property("") })
		case "required", "strict", "$schema":
			t.Value()
		default:
			t.count(name + ":" + string(t.Value()))
		}
	})
	return kind, description
}

func (t *toolWeight) properties() {
	n := 0
	t.Object(func(name string) {
		n++
		t.property(name)
	})
	if n > 0 {
		t.text += propertiesTokens
	}
}

func (t *toolWeight) property(name string) {
	kind, description := t.schema()
	t.count(name + ":" + kind + ":" + strings.TrimSuffix(description, "."))
	t.text += propertyTokens
}

func (t *toolWeight) enum() {
	t.Array(func(n int) {
		if n == 0 { // an empty enum would subtract tokens
			t.text += enumTokens
		}
		t.count(t.textOrJSON())
		t.text += enumItemTokens
	})
}

// textOrJSON returns the next value: a string's text, or else its JSON, as of a list of types.
func (t *toolWeight) textOrJSON() string {
	k, v := t.Kind(), t.Value()
	if k == chat.KindString {
		return chat.Unquote(v)
	}
	return string(v)
}
