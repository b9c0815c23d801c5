package model

import (
	"strings"

	"sidenote/rewrite/chat"
)

// The formula for tools is that of the OpenAI cookbook ("How to count tokens with tiktoken",
// section 7). It is given for flat schemas; nested ones are counted by the same rule at each
// level, and keywords that it does not cover are counted as text. For models without a public
// tokenizer a list of tools is counted as its JSON text after a preamble: most chat templates
// print the JSON.
const (
	functionTokens      = 7  // a function, in o200k_base
	olderFunctionTokens = 10 // a function, in older encodings
	propertiesTokens    = 3  // an object's list of properties
	propertyTokens      = 3  // each property
	enumTokens          = -3 // an enum
	enumItemTokens      = 3  // each of its items
	toolsTokens         = 12 // the end of the list
)

// tools counts a list of tools, or of functions in the deprecated form.
func (m *messageWeight) tools() {
	n := 0
	m.Array(func(int) { n++; m.tool() })
	if n > 0 {
		m.text += toolsTokens
	}
}

// tool counts a tool: a function, either inside a "function" member or bare, as in Responses and
// Messages; anything else is counted as text.
func (m *messageWeight) tool() {
	start, kind := m.Reader, ""
	framed := false
	m.Object(func(name string) {
		switch name {
		case "type":
			kind = m.Text()
		case "function":
			m.function()
			framed = true
		default:
			m.Value()
		}
	})
	switch {
	case framed:
	case kind == "" || kind == "function":
		m.Reader = start
		m.function()
	default:
		m.count(string(start.Value()))
	}
}

func (m *messageWeight) function() {
	var name, description string
	m.Object(func(member string) {
		switch member {
		case "name":
			name = m.Text()
		case "description":
			description = m.Text()
		case "parameters", "input_schema":
			m.schema()
		default:
			m.Value()
		}
	})
	m.count(name + ":" + strings.TrimSuffix(description, "."))
	m.text += olderFunctionTokens
	if m.Encoding == "o200k_base" {
		m.text += functionTokens - olderFunctionTokens
	}
}

// schema counts a schema except its type and description, which it returns.
func (m *messageWeight) schema() (kind, description string) {
	m.Object(func(name string) {
		switch name {
		case "type":
			kind = m.textOrJSON()
		case "description":
			description = m.Text()
		case "enum":
			m.enum()
		case "properties", "$defs", "definitions":
			m.properties()
		case "items", "additionalProperties", "not":
			m.schema()
		case "anyOf", "oneOf", "allOf", "prefixItems":
			m.Array(func(int) { m.property("") })
		case "required", "strict", "$schema":
			m.Value()
		default:
			m.count(name + ":" + string(m.Value()))
		}
	})
	return kind, description
}

func (m *messageWeight) properties() {
	n := 0
	m.Object(func(name string) {
		n++
		m.property(name)
	})
	if n > 0 {
		m.text += propertiesTokens
	}
}

func (m *messageWeight) property(name string) {
	kind, description := m.schema()
	m.count(name + ":" + kind + ":" + strings.TrimSuffix(description, "."))
	m.text += propertyTokens
}

func (m *messageWeight) enum() {
	m.Array(func(n int) {
		if n == 0 { // an empty enum would subtract tokens
			m.text += enumTokens
		}
		m.count(m.textOrJSON())
		m.text += enumItemTokens
	})
}

// textOrJSON returns the next value: a string's text, otherwise its JSON, such as a list of
// types.
func (m *messageWeight) textOrJSON() string {
	k, v := m.Kind(), m.Value()
	if k == chat.KindString {
		return chat.Unquote(v)
	}
	return string(v)
}
