package filter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The limits of a filter. They bound the cost of a search and are far above the needs of policies.
const (
	maxDepth  = 16
	maxNodes  = 256  // comparisons, ands and ors
	maxValues = 1024 // of one list
	maxText   = 1024 // bytes of a key or a value
)

// An Error says what is wrong with a filter, and where.
type Error struct {
	At  string // the field, such as filters[1].value; "" for the filter itself
	Err error  // what is wrong, naming the value
}

// Error returns the place and what is wrong there.
func (e *Error) Error() string { return cmp.Or(e.At, "filter") + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// wrongAt returns an Error.
func wrongAt(at, format string, args ...any) error {
	return &Error{at, fmt.Errorf(format, args...)}
}

// Parse parses a filter's JSON. Its errors are of type *Error.
func Parse(text []byte) (*Filter, error) {
	return parseWhole(text, false)
}

// ParseWithClaims is Parse for configurations: the value of an eq or an in may also be {"claim":
// "NAME"}, which becomes a Claim.
func ParseWithClaims(text []byte) (*Filter, error) { return parseWhole(text, true) }

func parseWhole(text []byte, claims bool) (*Filter, error) {
	p := parser{claims: claims}
	f, err := p.parse(text, "", 1)
	if err != nil {
		return nil, err
	}
	return &f, nil
}

// A parser parses one filter with the filters in it.
type parser struct {
	nodes  int  // read so far
	claims bool // values may be claims
}

// UnmarshalJSON parses text like Parse.
func (f *Filter) UnmarshalJSON(text []byte) error {
	parsed, err := Parse(text)
	if err == nil {
		*f = *parsed
	}
	return err
}

// parse parses one node. at is its place, for errors.
func (p *parser) parse(text []byte, at string, depth int) (Filter, error) {
	if p.nodes++; p.nodes > maxNodes {
		return Filter{}, wrongAt(at, "there are more than %d filters in one", maxNodes)
	}
	if depth > maxDepth {
		return Filter{}, wrongAt(at, "filters stand more than %d deep", maxDepth)
	}
	fields, err := filterFields(text, at)
	if err != nil {
		return Filter{}, err
	}
	var f Filter
	if err := shortText(fields["type"], (*string)(&f.Type)); err != nil {
		return Filter{}, &Error{place(at, "type"), err}
	}
	switch f.Type {
	case And, Or:
		f.Filters, err = p.joined(f.Type, fields, at, depth)
	case Eq, Ne, Gt, Gte, Lt, Lte, In, Nin, Prefix:
		err = f.parseComparison(fields, at, p.claims)
	default:
		err = wrongAt(place(at, "type"), "%q is none of eq, ne, gt, gte, lt, lte, in, nin, prefix, and, or", f.Type)
	}
	return f, err
}

func place(at, field string) string { return strings.TrimPrefix(at+"."+field, ".") }

// filterFields parses an object. Each field may occur once, and names are case-sensitive.
func filterFields(text []byte, at string) (map[string]json.RawMessage, error) {
	if len(text) > 0 && !json.Valid(text) {
		return nil, wrongAt(at, "%s is not JSON", brief(text))
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, _ := dec.Token(); t != json.Delim('{') {
		return nil, wrongAt(at, `%s is not an object such as {"type": "eq", "key": "audience", "value": "public"}`, brief(text))
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, &Error{at, err}
		}
		name, _ := t.(string)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, &Error{at, err}
		}
		switch name {
		case "type", "key", "value", "filters":
		default:
			return nil, wrongAt(place(at, brief([]byte(name))), "unknown field; a filter has type, key and value, or type and filters")
		}
		if fields[name] != nil {
			return nil, wrongAt(place(at, name), "is there twice")
		}
		fields[name] = raw
	}
	return fields, nil
}

func (p *parser) joined(is Type, fields map[string]json.RawMessage, at string, depth int) ([]Filter, error) {
	if fields["key"] != nil || fields["value"] != nil {
		return nil, wrongAt(at, "%q joins filters; it has no key and no value", is)
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(fields["filters"], &parts); err != nil || len(parts) == 0 {
		return nil, wrongAt(place(at, "filters"), "%s is not a list of at least one filter", brief(fields["filters"]))
	}
	if len(parts) > maxNodes {
		return nil, wrongAt(place(at, "filters"), "there are more than %d filters in one", maxNodes)
	}
	out := make([]Filter, len(parts))
	for i, part := range parts {
		f, err := p.parse(part, fmt.Sprintf("%s[%d]", place(at, "filters"), i), depth+1)
		if err != nil {
			return nil, err
		}
		out[i] = f
	}
	return out, nil
}

func (f *Filter) parseComparison(fields map[string]json.RawMessage, at string, claims bool) error {
	if fields["filters"] != nil {
		return wrongAt(at, "%q compares; it has a key and a value, no filters", f.Type)
	}
	if err := shortText(fields["key"], &f.Key); err != nil {
		return &Error{place(at, "key"), err}
	}
	if f.Key == "" {
		return wrongAt(place(at, "key"), "is empty")
	}
	at = place(at, "value")
	var v any
	if fields["value"] == nil {
		return wrongAt(at, "is missing")
	}
	if err := json.Unmarshal(fields["value"], &v); err != nil { // valid JSON, checked by filterFields
		return wrongAt(at, "%s holds a number that is too large", brief(fields["value"]))
	}
	if claim, ok := claimOf(v); ok && claims {
		if f.Type != Eq && f.Type != In {
			return wrongAt(at, "a claim goes with eq and in, not with %s", f.Type)
		}
		f.Value = claim
		return nil
	}
	if err := f.checkValue(v); err != nil {
		return wrongAt(at, "%s %w", brief(fields["value"]), err)
	}
	f.Value = v
	return nil
}

// checkValue returns an error for a value that the filter's type does not allow.
func (f *Filter) checkValue(v any) error {
	values, isList := v.([]any)
	switch f.Type {
	case In, Nin:
		if !isList {
			return errors.New("is not a list")
		}
		if len(values) > maxValues {
			return fmt.Errorf("has more than %d values", maxValues)
		}
		for _, v := range values {
			if err := scalar(v); err != nil {
				return err
			}
		}
		return nil
	case Gt, Gte, Lt, Lte:
		if _, isBool := v.(bool); isBool {
			return errors.New("has no order; a number or a string has")
		}
	case Prefix:
		if _, isText := v.(string); !isText {
			return errors.New("is not a string")
		}
	}
	return scalar(v)
}

// scalar returns an error for anything that is not a valid attribute value.
func scalar(v any) error {
	switch v := v.(type) {
	case string:
		if len(v) > maxText {
			return fmt.Errorf("is longer than %d bytes", maxText)
		}
		return nil
	case float64, bool:
		return nil
	}
	return errors.New("is neither a string, a number nor a boolean")
}

// shortText parses a short string.
func shortText(raw json.RawMessage, to *string) error {
	if raw == nil {
		return errors.New("is missing")
	}
	if err := json.Unmarshal(raw, to); err != nil || bytes.Equal(raw, []byte("null")) {
		return fmt.Errorf("%s is not a string", brief(raw))
	}
	if len(*to) > maxText {
		return fmt.Errorf("%s is longer than %d bytes", brief(raw), maxText)
	}
	return nil
}

// brief shortens a text for an error message.
func brief(text []byte) string {
	const most = 60
	s := strings.Join(strings.Fields(string(text)), " ")
	if s == "" {
		return "what is missing"
	}
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
