package rewrite

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sidenote/retrieval/filter"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/chunks"
)

// The limits of a request's options.
const (
	maxOptionQuery      = 8 << 10 // bytes
	maxOptionComponents = 16
	maxOptionBases      = 64
)

// ReadOptions reads the body field "sidenote". The error is an *OptionError.
func ReadOptions(r *chat.Request) (Options, error) {
	f := r.Field
	raw := f.Value.Of(r.Body)
	switch {
	case f == (chat.Field{}):
		return Options{}, nil
	case f.Twice:
		return Options{}, wrong("sidenote", "is repeated")
	}
	o := optionReader{Reader: chat.NewReader(raw)}
	switch k := o.Kind(); k {
	case chat.KindNull:
		return Options{}, nil
	case chat.KindObject:
	default:
		return Options{}, wrong("sidenote", fmt.Sprintf("%s, not an object", k))
	}
	o.members("sidenote.", o.option)
	switch {
	case o.bad != nil:
	case o.twice != nil:
		o.bad = o.twice
	case o.Context != nil && o.Chunks == nil:
		o.bad = wrong("sidenote.context", "there are no sidenote.chunks for it")
	case f.LoneSurrogate >= 0:
		o.bad = wrong("sidenote", fmt.Sprintf("escaped lone surrogate at byte %d", f.LoneSurrogate))
	case !utf8.Valid(raw):
		o.bad = wrong("sidenote", "not valid UTF-8")
	}
	if o.bad != nil {
		return Options{}, o.bad
	}
	return o.Options, nil
}

func wrong(param, reason string) *OptionError {
	return &OptionError{Param: param, Reason: reason}
}

// An optionReader reads the body field, whose JSON syntax was checked by the parser.
type optionReader struct {
	chat.Reader
	Options
	bad   *OptionError
	twice *OptionError // the first duplicate key
}

// wrong records the first mistake and stops the reader.
func (o *optionReader) wrong(param, format string, args ...any) {
	if o.bad == nil {
		o.bad = wrong(param, fmt.Sprintf(format, args...))
		o.Stop()
	}
}

// wrongIn records a mistake in chunks or context.
func (o *optionReader) wrongIn(err error) {
	if bad := (*chunks.Error)(nil); errors.As(err, &bad) {
		o.wrong("sidenote."+bad.Param, "%s", bad.Reason)
	}
}

// members reads an object and refuses duplicate keys.
func (o *optionReader) members(at string, member func(param, name string)) {
	var names []string
	o.Object(func(name string) {
		switch {
		case !slices.Contains(names, name):
			names = append(names, name)
		case o.twice == nil:
			o.twice = wrong(at+name, fmt.Sprintf("key %q is repeated in one object", name))
		}
		member(at+name, name)
	})
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
		if ids := o.bases(param); ids != nil {
			NameBases(&o.Options, param, ids)
		}
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
		if o.Kind() == chat.KindNull {
			o.Value()
			return
		}
		list, err := chunks.Parse(o.Value())
		o.wrongIn(err)
		o.Chunks = list
	case "context":
		if o.Kind() == chat.KindNull {
			o.Value()
			return
		}
		context, err := chunks.ParseOptions(o.Value())
		o.wrongIn(err)
		o.Context = &context
	default:
		o.wrong(param, "unknown option; use mode, knowledge, context_tokens, query, filters, components, chunks or context")
	}
}

// text reads a string.
func (o *optionReader) text(param string) string {
	k, v := o.Kind(), o.Value()
	if k != chat.KindString {
		o.wrong(param, "%s, not a string", k)
		return ""
	}
	return chat.Unquote(v)
}

func (o *optionReader) integer(param string, least, most int) int {
	v := o.Value()
	var n int
	if err := json.Unmarshal(v, &n); err != nil || string(v) == "null" || n < least || n > most {
		o.wrong(param, "%.40s is not a whole number from %d to %d", v, least, most)
	}
	return n
}

func (o *optionReader) bases(param string) []string {
	if o.Kind() == chat.KindString {
		return []string{o.text(param)}
	}
	bases := []string{}
	if k := o.Kind(); k != chat.KindArray {
		o.wrong(param, "%s, not a string or an array of strings", k)
		return nil
	}
	o.Array(func(n int) { bases = append(bases, o.text(fmt.Sprintf("%s[%d]", param, n))) })
	if len(bases) > maxOptionBases {
		o.wrong(param, "%d bases; at most %d", len(bases), maxOptionBases)
	}
	return bases
}

// filter reads a filter in the form of vector store search requests; "and" combines several. Its
// parser refuses duplicate keys, too.
func (o *optionReader) filter(param string) {
	k, v := o.Kind(), o.Value()
	if k != chat.KindObject {
		o.wrong(param, `%s, not an object; several filters are joined by {"type": "and", "filters": […]}`, k)
		return
	}
	f, err := filter.Parse(v)
	if at := (*filter.Error)(nil); errors.As(err, &at) {
		param, err = strings.TrimSuffix(param+"."+at.At, "."), at.Err
	}
	if err != nil {
		o.wrong(param, "%v", err)
	}
	o.Filter = f
}

func (o *optionReader) components(param string) {
	if k := o.Kind(); k != chat.KindArray {
		o.wrong(param, "%s, not an array", k)
		return
	}
	names := map[string]bool{}
	o.Array(func(n int) {
		if n == maxOptionComponents {
			o.wrong(param, "more than %d components", maxOptionComponents)
			return
		}
		at := fmt.Sprintf("%s[%d]", param, n)
		c := o.component(at)
		if names[c.Name] {
			o.wrong(at+".name", "%q is repeated", c.Name)
		}
		names[c.Name] = true
		o.Options.Components = append(o.Options.Components, c)
	})
}

func (o *optionReader) component(at string) Component {
	c := Component{Priority: PriorityMedium, Truncatable: true}
	if k := o.Kind(); k != chat.KindObject {
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
			v := string(o.Value())
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
	if !hasVisible(c.Text) {
		o.wrong(at+".text", "empty")
	}
	return c
}

func (o *optionReader) priority(param string) int {
	if o.Kind() != chat.KindString {
		return o.integer(param, 0, PriorityCritical)
	}
	name := o.text(param)
	p, ok := NamedPriority(name)
	if !ok {
		o.wrong(param, "%q is not a priority; use critical, high, medium, low, optional or 0 to 100", name)
	}
	return p
}
