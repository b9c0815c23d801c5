package rewrite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"sidenote/retrieval"
)

// The limits of a request's options.
const (
	maxOptionQuery      = 8 << 10 // bytes
	maxOptionComponents = 16
	maxOptionBases      = 64
)

// Options reads the body field "sidenote". The error is an *OptionError.
func (r *Request) Options() (Options, error) {
	switch {
	case r.field == (member{}):
		return Options{}, nil
	case r.fieldTwice:
		return Options{}, &OptionError{"sidenote", "stands twice"}
	}
	o := optionReader{scanner: scanner{b: r.Body[:r.field.value.end], i: r.field.value.start, loneSurrogate: -1}}
	switch o.kind() {
	case kindNull:
		return Options{}, nil
	case kindObject:
	default:
		return Options{}, &OptionError{"sidenote", fmt.Sprintf("%s, not an object", o.kind())}
	}
	o.members("sidenote.", o.option)
	switch {
	case o.bad != nil:
	case o.keys.err != nil:
		o.bad = &OptionError{o.keys.err.Param, o.keys.err.Message}
	case o.loneSurrogate >= 0:
		o.bad = &OptionError{"sidenote", fmt.Sprintf("escaped lone surrogate at byte %d", o.loneSurrogate)}
	case !utf8.Valid(r.field.value.of(r.Body)):
		o.bad = &OptionError{"sidenote", "not valid UTF-8"}
	}
	if o.bad != nil {
		return Options{}, o.bad
	}
	return o.Options, nil
}

// optionReader reads the body field, whose JSON the parser has checked before.
type optionReader struct {
	scanner
	Options
	keys keySet
	bad  *OptionError
}

// wrong records the first mistake and stops the scanner, so that nothing more is read.
func (o *optionReader) wrong(param, format string, args ...any) {
	if o.bad == nil {
		o.bad = &OptionError{param, fmt.Sprintf(format, args...)}
		o.err = &BodyError{}
	}
}

// members reads an object and refuses duplicate keys.
func (o *optionReader) members(at string, member func(param, name string)) {
	level := o.keys.level()
	o.object(func(key span, _ bool) {
		name := unquote(key.of(o.b))
		o.keys.add(level, at, []byte(name))
		member(at+name, name)
	})
	o.keys.leave(level)
}

func (o *optionReader) option(param, name string) {
	switch name {
	case "mode":
		m, err := ParseMode(o.text(param))
		if err != nil {
			o.wrong(param, "%v", err)
		}
		o.Mode = &m
	case "knowledge":
		o.Knowledge = o.bases(param)
	case "context_tokens":
		n := o.integer(param, 0, 1<<30)
		o.ContextTokens = &n
	case "query":
		o.Query = strings.TrimSpace(o.text(param))
		if len(o.Query) > maxOptionQuery {
			o.wrong(param, "%d bytes; at most %d", len(o.Query), maxOptionQuery)
		}
	case "filters":
		o.filter(param)
	case "components":
		o.components(param)
	case "chunks":
		o.wrong(param, "reserved; not supported yet")
	default:
		o.wrong(param, "unknown option; use mode, knowledge, context_tokens, query, filters or components")
	}
}

// text reads a string.
func (o *optionReader) text(param string) string {
	k := o.kind()
	v := o.value()
	if k != kindString {
		o.wrong(param, "%s, not a string", k)
		return ""
	}
	return unquote(v.of(o.b))
}

func (o *optionReader) integer(param string, least, most int) int {
	v := o.value().of(o.b)
	var n int
	if err := json.Unmarshal(v, &n); err != nil || string(v) == "null" || n < least || n > most {
		o.wrong(param, "%.40s is not a whole number from %d to %d", v, least, most)
	}
	return n
}

func (o *optionReader) bases(param string) []string {
	if o.kind() == kindString {
		return []string{o.text(param)}
	}
	bases := []string{}
	if k := o.kind(); k != kindArray {
		o.wrong(param, "%s, not a string or an array of strings", k)
		return nil
	}
	o.array(func(n int) { bases = append(bases, o.text(fmt.Sprintf("%s[%d]", param, n))) })
	if len(bases) > maxOptionBases {
		o.wrong(param, "%d bases; at most %d", len(bases), maxOptionBases)
	}
	return bases
}

// filter reads one filter in the form that searches of vector stores use; "and" joins
// several. The filter's own parser reads it and refuses duplicate keys too.
func (o *optionReader) filter(param string) {
	k := o.kind()
	v := o.value()
	if k != kindObject {
		o.wrong(param, `%s, not an object; several filters are joined by {"type": "and", "filters": […]}`, k)
		return
	}
	f, err := retrieval.ParseFilter(v.of(o.b))
	if at := (*retrieval.FilterError)(nil); errors.As(err, &at) {
		param, err = strings.TrimSuffix(param+"."+at.At, "."), at.Err
	}
	if err != nil {
		o.wrong(param, "%v", err)
	}
	o.Filter = f
}

func (o *optionReader) components(param string) {
	if k := o.kind(); k != kindArray {
		o.wrong(param, "%s, not an array", k)
		return
	}
	names := map[string]bool{}
	o.array(func(n int) {
		if n == maxOptionComponents {
			o.wrong(param, "more than %d components", maxOptionComponents)
			return
		}
		at := fmt.Sprintf("%s[%d]", param, n)
		c := o.component(at)
		if names[c.Name] {
			o.wrong(at+".name", "%q stands twice", c.Name)
		}
		names[c.Name] = true
		o.Options.Components = append(o.Options.Components, c)
	})
}

func (o *optionReader) component(at string) Component {
	c := Component{Priority: PriorityMedium, Truncatable: true}
	if k := o.kind(); k != kindObject {
		o.wrong(at, "%s, not an object", k)
		return c
	}
	o.members(at+".", func(param, name string) {
		switch name {
		case "name":
			c.Name = o.text(param)
		case "text":
			c.Text = o.text(param)
		case "priority":
			c.Priority = o.priority(param)
		case "truncatable":
			v := string(o.value().of(o.b))
			if v != "true" && v != "false" {
				o.wrong(param, "%.40s is not true or false", v)
			}
			c.Truncatable = v == "true"
		default:
			o.wrong(param, "unknown field; use name, text, priority or truncatable")
		}
	})
	if !ValidName(c.Name) || c.Name == SourcesName {
		o.wrong(at+".name", "%q is not a name: 1 to 64 of a-z, 0-9, '_' and '-', not %q", c.Name, SourcesName)
	}
	if !strings.ContainsFunc(c.Text, visible) {
		o.wrong(at+".text", "empty")
	}
	return c
}

func (o *optionReader) priority(param string) int {
	if o.kind() != kindString {
		return o.integer(param, 0, PriorityCritical)
	}
	p, err := ParsePriority(o.text(param))
	if err != nil {
		o.wrong(param, "%v", err)
	}
	return p
}

// ParsePriority returns the number of a priority's name.
func ParsePriority(s string) (int, error) {
	switch s {
	case "critical":
		return PriorityCritical, nil
	case "high":
		return PriorityHigh, nil
	case "medium":
		return PriorityMedium, nil
	case "low":
		return PriorityLow, nil
	case "optional":
		return PriorityOptional, nil
	}
	return 0, fmt.Errorf("%q is not a priority; use critical, high, medium, low, optional or 0 to 100", s)
}

// ValidName tells whether s has the form that every name chosen by people must have:
// the ids and names of tenants, bases, policies and components.
func ValidName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
