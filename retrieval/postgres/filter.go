package postgres

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"sidenote/retrieval/filter"
)

// arguments collects the parameters of a statement.
type arguments []any

// add adds a parameter and returns how a statement refers to it.
func (a *arguments) add(v any) string {
	*a = append(*a, v)
	return "$" + strconv.Itoa(len(*a))
}

// condition returns an SQL expression that is true for the rows that a filter matches, and never
// NULL. column is an expression of type jsonb, with an object. Values are parameters.
//
// For attributes that filter.Match does not take, such as nested objects, it may be true although
// Match is false.
func condition(f *filter.Filter, column string, args *arguments) string {
	switch {
	case f == nil:
		return "true"
	case f.Type == filter.And || f.Type == filter.Or:
		return combined(f, column, args)
	}
	key, values, ok := f.Comparison()
	if !ok {
		return "false"
	}
	switch f.Type {
	case filter.Eq, filter.In:
		return contains(key, values, column, args)
	case filter.Ne, filter.Nin:
		return "not " + contains(key, values, column, args)
	case filter.Prefix:
		if text, ok := values[0].(string); ok {
			return anyText("starts_with(%, "+args.add(escape(text))+")", key, column, args)
		}
	case filter.Gt, filter.Gte, filter.Lt, filter.Lte:
		return ordered(f.Type, key, values[0], column, args)
	}
	return "false"
}

func combined(f *filter.Filter, column string, args *arguments) string {
	parts := make([]string, len(f.Filters))
	for i := range f.Filters {
		parts[i] = condition(&f.Filters[i], column, args)
	}
	switch {
	case len(parts) == 0:
		return strconv.FormatBool(f.Type == filter.And)
	case f.Type == filter.And:
		return "(" + strings.Join(parts, " and ") + ")"
	}
	return "(" + strings.Join(parts, " or ") + ")"
}

// contains is true if the attribute, or an element of it, is one of some values. It can use an
// index.
func contains(key string, values []any, column string, args *arguments) string {
	if len(values) == 0 {
		return "false"
	}
	var objects []string
	for _, v := range values {
		if text, ok := v.(string); ok {
			v = escape(text)
		}
		objects = append(objects, object(key, v), object(key, []any{v}))
	}
	return "(" + column + " @> any(" + args.add(objects) + "::jsonb[]))"
}

// object returns a JSON object with one key.
func object(key string, v any) string {
	text, err := json.Marshal(map[string]any{escape(key): v})
	if err != nil {
		panic("BUG: a value of a filter is not JSON: " + err.Error())
	}
	return string(text)
}

// ordered compares an attribute with a number or a string.
func ordered(is filter.Type, key string, v any, column string, args *arguments) string {
	operator := map[filter.Type]string{filter.Gt: ">", filter.Gte: ">=", filter.Lt: "<", filter.Lte: "<="}[is]
	switch v := v.(type) {
	case string:
		return anyText("% "+operator+" "+args.add(escape(v))+` collate "C"`, key, column, args)
	case float64:
		attribute := "(" + column + " -> " + args.add(escape(key)) + ")"
		number := args.add(strconv.FormatFloat(v, 'g', -1, 64)) + "::numeric"
		// Only a case guarantees that nothing else is converted.
		return "(case jsonb_typeof(" + attribute + ") when 'number' then " + attribute + "::numeric " + operator + " " + number + " else false end)"
	}
	return "false"
}

// anyText is true if test is for an attribute that is a string, or for an element of one that is a
// list. In test, % stands for the string.
func anyText(test, key, column string, args *arguments) string {
	attribute := "(" + column + " -> " + args.add(escape(key)) + ")"
	one := strings.ReplaceAll(test, "%", `(`+attribute+` #>> '{}') collate "C"`)
	each := strings.ReplaceAll(test, "%", `(e.v #>> '{}') collate "C"`)
	return "(case jsonb_typeof(" + attribute + ") when 'string' then " + one +
		" when 'array' then exists (select from jsonb_array_elements(" + attribute + ") e(v) where jsonb_typeof(e.v) = 'string' and " + each + ") else false end)"
}

// escape returns a text without NUL, which Postgres cannot store, so that the order of texts and
// their prefixes stay: NUL becomes 1 1, and 1 becomes 1 2.
func escape(s string) string {
	if strings.IndexByte(s, 0) < 0 && strings.IndexByte(s, 1) < 0 {
		return s
	}
	return strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02").Replace(s)
}

// filterable returns attributes, a JSON object, as they are stored for filters. Values that are no
// attributes are left out.
func filterable(attributes string) (string, error) {
	if attributes == "" {
		return "{}", nil
	}
	if attributes[0] != '{' || !json.Valid([]byte(attributes)) {
		return "", errors.New("they are no JSON object")
	}
	if !strings.Contains(attributes, `\u000`) {
		return attributes, nil
	}
	var values map[string]any
	if err := json.Unmarshal([]byte(attributes), &values); err != nil {
		return "", err
	}
	escaped := make(map[string]any, len(values))
	for key, v := range values {
		switch list := v.(type) {
		case string:
			v = escape(list)
		case []any:
			for i, e := range list {
				if text, ok := e.(string); ok {
					list[i] = escape(text)
				}
			}
		}
		escaped[escape(key)] = v
	}
	text, err := json.Marshal(escaped)
	return string(text), err
}
