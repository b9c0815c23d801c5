package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits and defaults of arguments.
const (
	maxArguments = 64 << 10 // bytes in total
	maxQuery     = 8 << 10  // bytes

	defaultTopK, defaultFiles, maxHits    = 5, 10, 50
	defaultChars, leastChars, maxChars    = 6000, 200, 100_000
	defaultTokens, leastTokens, maxTokens = 4000, 50, 32_000
	maxRefs                               = 20
	shown                                 = 80 // bytes of a wrong value to quote
)

// decode decodes arguments into a struct of pointers. Unknown arguments are an error: they may be
// meant to narrow the search.
func decode(arguments []byte, to any) error {
	if len(arguments) > maxArguments {
		return &ArgumentError{Reason: fmt.Sprintf("the arguments have %d bytes; they have at most %d", len(arguments), maxArguments)}
	}
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = []byte("{}")
	}
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("something stands after them")
		}
	}
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return &ArgumentError{Reason: "the arguments are no JSON object"}
		}
		return &ArgumentError{wrong.Field, fmt.Sprintf("is a JSON %s; it takes %s", wrong.Value, kindOf(wrong.Type.String()))}
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return &ArgumentError{Reason: "there is no argument " + clip(name)}
	}
	return &ArgumentError{Reason: "the arguments are no JSON: " + err.Error()}
}

// kindOf returns the JSON name of a Go type.
func kindOf(name string) string {
	switch name {
	case "int":
		return "a whole number"
	case "string":
		return "text"
	}
	return "a list of texts"
}

func toolText(name string, value *string) (string, error) {
	if value == nil || strings.TrimSpace(*value) == "" {
		return "", &ArgumentError{name, "is missing or empty"}
	}
	if len(*value) > maxQuery {
		return "", &ArgumentError{name, fmt.Sprintf("has %d bytes; it has at most %d", len(*value), maxQuery)}
	}
	return *value, nil
}

func number(name string, value *int, otherwise, least, most int) (int, error) {
	if value == nil {
		return otherwise, nil
	}
	if *value < least || *value > most {
		return 0, &ArgumentError{name, fmt.Sprintf("is %d; it goes from %d to %d", *value, least, most)}
	}
	return *value, nil
}

// clip shortens a value for a message.
func clip(s string) string {
	if len(s) > shown {
		s = strings.ToValidUTF8(s[:shown], "") + "…"
	}
	return s
}
