package rewrite

import "strings"

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
func (w *weigher) tools(m *messageWeight) {
	t := toolWeight{m}
	n := 0
	t.list(func(int) { n++; t.tool() })
	if n > 0 {
		t.text += toolsTokens
	}
}

// A toolWeight is the running count of a list of tools, whose JSON was checked before.
type toolWeight struct{ *messageWeight }

// tool counts a tool: a function, either inside a "function" member or bare; anything
// else is counted as text.
func (t *toolWeight) tool() {
	start, kind := t.i, ""
	framed := false
	t.members(func(name string) {
		switch name {
		case "type":
			kind = t.string()
		case "function":
			t.function()
			framed = true
		default:
			t.value()
		}
	})
	switch {
	case framed:
	case kind == "":
		t.reread(start, t.function)
	default:
		t.count(string(t.b[start:t.i]))
	}
}

// reread runs read at start once more and then returns to the present offset.
func (t *toolWeight) reread(start int, read func()) {
	end := t.i
	t.i = start
	read()
	t.i = end
}

func (t *toolWeight) function() {
	var name, description string
	t.members(func(member string) {
		switch member {
		case "name":
			name = t.string()
		case "description":
			description = t.string()
		case "parameters":
			t.schema()
		default:
			t.value()
		}
	})
	t.count(name + ":" + strings.TrimSuffix(description, "."))
	t.text += olderFunctionTokens
	if t.encoding == "o200k_base" {
		t.text += functionTokens - olderFunctionTokens
	}
}

// schema counts a schema, except its type and description, which it returns.
func (t *toolWeight) schema() (kind, description string) {
	t.members(func(name string) {
		switch name {
		case "type":
			start := t.i
			if kind = t.string(); kind == "" { // a list of types
				kind = string(t.b[start:t.i])
			}
		case "description":
			description = t.string()
		case "enum":
			t.enum()
		case "properties", "$defs", "definitions":
			t.properties()
		case "items", "additionalProperties", "not":
			t.schema()
		case "anyOf", "oneOf", "allOf", "prefixItems":
			t.list(func(int) { t.property("") })
		case "required", "strict", "$schema":
			t.value()
		default:
			v := t.value()
			t.count(name + ":" + string(v.of(t.b)))
		}
	})
	return kind, description
}

func (t *toolWeight) properties() {
	n := 0
	t.members(func(name string) {
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
	t.list(func(n int) {
		if n == 0 { // an empty enum would subtract tokens
			t.text += enumTokens
		}
		start, k := t.i, t.kind()
		item := t.string()
		if k != kindString {
			item = string(t.b[start:t.i])
		}
		t.count(item)
		t.text += enumItemTokens
	})
}
