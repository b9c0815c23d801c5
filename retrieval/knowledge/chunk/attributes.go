package chunk

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a document's attributes. Every document is compared with every filter, whose keys and
// values have the same limits.
const (
	MaxAttributes      = 64
	maxAttributeName   = 256  // bytes
	maxAttributeText   = 1024 // bytes of a string, also in a list
	maxAttributeValues = 1024 // elements of a list
)

// Attribute returns a value in the form in which it is stored under a key: a string, a float64, a
// bool or a []string, which is a copy. Whole numbers of Go's integer types become float64s if that
// is exact; lists of any become lists of strings if all elements are strings.
//
// It rejects other types, nested and mixed lists, NaN and infinities, invalid UTF-8, and anything
// too long: names of more than 256 bytes, strings of more than 1024, lists of more than 1024. The
// error names the key and the value.
func Attribute(key string, v any) (any, error) {
	var err error
	switch {
	case key == "":
		err = errors.New("it has no name")
	case len(key) > maxAttributeName:
		err = fmt.Errorf("its name is longer than %d bytes", maxAttributeName)
	case !utf8.ValidString(key):
		err = errors.New("its name is not UTF-8")
	default:
		v, err = attribute(v)
	}
	if err != nil {
		return nil, fmt.Errorf("attribute %.100q: %w", key, err)
	}
	return v, nil
}

// attribute returns v as one of the four stored types.
func attribute(v any) (any, error) {
	switch v := v.(type) {
	case bool:
		return v, nil
	case string:
		return v, checkText(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%v is not a number to compare with", v)
		}
		return v + 0, nil // -0 becomes 0, as they compare equal
	case int:
		return attribute(int64(v))
	case int64:
		if f := float64(v); f < 1<<63 && int64(f) == v {
			return f, nil
		}
		return nil, fmt.Errorf("%d does not fit a float64 exactly", v)
	case uint64:
		if f := float64(v); f < 1<<64 && uint64(f) == v {
			return f, nil
		}
		return nil, fmt.Errorf("%d does not fit a float64 exactly", v)
	case []string:
		return list(v)
	case []any:
		texts := make([]string, len(v))
		for i := range v {
			s, ok := v[i].(string)
			if !ok {
				return nil, fmt.Errorf("%s is a list with %s in it; lists are of strings", brief(v), kindOf(v[i]))
			}
			texts[i] = s
		}
		return list(texts)
	}
	return nil, fmt.Errorf("%s is %s, which is neither string, number, bool nor list of strings", brief(v), kindOf(v))
}

// kindOf returns the JSON name of the type of a value that cannot be an attribute.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case float64, int, int64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a %T", v)
}

func list(v []string) (any, error) {
	if len(v) > maxAttributeValues {
		return nil, fmt.Errorf("is a list of more than %d strings", maxAttributeValues)
	}
	for _, s := range v {
		if err := checkText(s); err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
	}
	return append([]string{}, v...), nil
}

func checkText(s string) error {
	switch {
	case !utf8.ValidString(s):
		return fmt.Errorf("%q is not UTF-8", cut(s, 60))
	case len(s) > maxAttributeText:
		return fmt.Errorf("%q is longer than %d bytes", cut(s, 10), maxAttributeText)
	}
	return nil
}

// brief shortens a value for an error, as JSON if possible.
func brief(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		text = fmt.Append(nil, v)
	}
	return cut(string(text), 60)
}

func cut(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// EncodeAttributes returns attributes, see Attribute, as a JSON object with sorted keys: equal
// attributes have equal texts; without attributes it is "{}".
func EncodeAttributes(attributes map[string]any) (string, error) {
	if len(attributes) == 0 {
		return "{}", nil
	}
	if n := len(attributes); n > MaxAttributes {
		return "", fmt.Errorf("%d attributes, more than %d", n, MaxAttributes)
	}
	out := make([]byte, 0, 128)
	for _, k := range slices.Sorted(maps.Keys(attributes)) {
		v, err := Attribute(k, attributes[k])
		if err != nil {
			return "", err
		}
		out = append(out, ',')
		if out, err = appendJSON(out, k); err != nil {
			return "", err
		}
		out = append(out, ':')
		if out, err = appendJSON(out, v); err != nil {
			return "", err
		}
	}
	out[0] = '{'
	return string(append(out, '}')), nil
}

// appendJSON appends a value as json.Marshal writes it. Most are short strings without anything to
// escape, for which that takes twenty times as long.
func appendJSON(to []byte, v any) ([]byte, error) {
	if s, ok := v.(string); ok && !strings.ContainsFunc(s, escaped) {
		return append(append(append(to, '"'), s...), '"'), nil
	}
	text, err := json.Marshal(v)
	return append(to, text...), err
}

// escaped reports whether json.Marshal might escape a character.
func escaped(r rune) bool {
	return r < ' ' || r >= utf8.RuneSelf || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&' || r == 0x7f
}

// DecodeAttributes reverses EncodeAttributes; without attributes it returns nil.
func DecodeAttributes(text string) (map[string]any, error) {
	if text == "{}" {
		return nil, nil
	}
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("attributes: %w", err)
	}
	for k, v := range out {
		v, err := Attribute(k, v)
		if err != nil {
			return nil, err
		}
		out[k] = v
	}
	return out, nil
}

// Encoded is EncodeAttributes for attributes that were checked before; it panics if they were not.
func Encoded(attributes map[string]any) string {
	text, err := EncodeAttributes(attributes)
	if err != nil {
		panic("BUG: attributes were not checked: " + err.Error())
	}
	return text
}
