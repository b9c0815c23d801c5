package answer

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"sidenote/rewrite/chat"
)

// A member is a member of a JSON object.
type member struct {
	name  string
	value []byte // JSON
}

// An object is a JSON object with unparsed values. It is written without white space, its members
// in order.
type object []member

// objectOf parses an object; ok is false if raw is not one.
func objectOf(raw []byte) (o object, ok bool) {
	r := chat.NewReader(raw)
	if r.Kind() != chat.KindObject {
		return nil, false
	}
	o = make(object, 0, 8) // most events have fewer members
	r.Object(func(name string) { o = append(o, member{name, r.Value()}) })
	return o, r.End() == nil
}

// elementsOf parses an array; it returns nil if raw is not one.
func elementsOf(raw []byte) (list [][]byte) {
	r := chat.NewReader(raw)
	r.Array(func(int) { list = append(list, r.Value()) })
	if r.End() != nil {
		return nil
	}
	return list
}

// get returns the value of a member, or nil if it is missing or null.
func (o object) get(name string) []byte {
	for i := range o {
		if o[i].name == name && string(o[i].value) != "null" {
			return o[i].value
		}
	}
	return nil
}

// text returns the value of a string member, or the JSON of any other value.
func (o object) text(name string) string { return textOf(o.get(name)) }

func textOf(raw []byte) string {
	if len(raw) == 0 || raw[0] != '"' {
		return string(raw)
	}
	return chat.Unquote(raw)
}

// set replaces the value of a member, or appends a new member.
func (o *object) set(name string, value []byte) {
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, member{name, value})
}

// drop removes a member.
func (o *object) drop(name string) {
	kept := (*o)[:0:0]
	for _, m := range *o {
		if m.name != name {
			kept = append(kept, m)
		}
	}
	*o = kept
}

// json encodes the object.
func (o object) json() []byte {
	size := 2
	for _, m := range o {
		size += len(m.name) + len(m.value) + 4
	}
	b := append(make([]byte, 0, size), '{')
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, quote(m.name)...), ':'), m.value...)
	}
	return append(b, '}')
}

// list encodes an array.
func list[T ~[]byte](elements []T) []byte {
	b := []byte{'['}
	for i, e := range elements {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, e...)
	}
	return append(b, ']')
}

// quote encodes a string, without escaping < and &.
func quote(s string) []byte {
	if plain(s) {
		return append(append(append(make([]byte, 0, len(s)+2), '"'), s...), '"')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(strings.ToValidUTF8(s, "\uFFFD")); err != nil {
		panic("BUG: encode a string: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// plain reports whether s needs no escaping in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			return false
		}
	}
	return true
}

// sum adds two usage objects member by member. A member that is neither a number nor an object is
// taken from the later one.
func sum(earlier, later []byte) []byte {
	a, ok := objectOf(earlier)
	b, okToo := objectOf(later)
	switch {
	case !ok:
		return later
	case !okToo:
		return earlier
	}
	for _, m := range b {
		before := a.get(m.name)
		value := m.value
		switch {
		case before == nil:
		case value[0] == '{':
			value = sum(before, value)
		case value[0] == 'n':
			value = before
		default:
			n, err := strconv.ParseInt(string(before), 10, 64)
			if k, failed := strconv.ParseInt(string(value), 10, 64); err == nil && failed == nil {
				value = strconv.AppendInt(nil, n+k, 10)
			}
		}
		a.set(m.name, value)
	}
	return a.json()
}
