package retrieval

import (
	"math"
	"unicode/utf8"
)

// Values of attributes and of filters come from JSON, YAML and Go. They are compared,
// and written as keys of caches, in one form: strings, finite float64s and bools, or
// lists of them. A value that is none of them, or a list that holds one, has no form.

// hasForm tells whether a comparison's value is one that a filter may hold: a list for
// in and nin, a plain value for the others.
func (f *Filter) hasForm() bool {
	if f.Type != FilterIn && f.Type != FilterNin {
		_, ok := value(f.Value)
		return ok
	}
	if _, plain := value(f.Value); plain {
		return false
	}
	_, ok := anyOf(f.Value, func(any) bool { return false })
	return ok
}

// anyOf tells whether a value, or an element of one that is a list, is as asked; ok is
// false where it has no form.
func anyOf(v any, is func(any) bool) (found, ok bool) {
	switch list := v.(type) {
	case []any:
		for _, e := range list {
			e, ok := value(e)
			if !ok {
				return false, false
			}
			found = found || is(e)
		}
		return found, true
	case []string:
		for _, e := range list {
			found = found || is(validText(e))
		}
		return found, true
	}
	v, ok = value(v)
	return ok && is(v), ok
}

// value returns the form of a plain value. Go's integers are numbers where a float64
// holds them exactly.
func value(v any) (_ any, ok bool) {
	switch n := v.(type) {
	case string:
		if utf8.ValidString(n) {
			return v, true
		}
		return validText(n), true
	case bool:
		return v, true
	case float64:
		return v, !math.IsNaN(n) && !math.IsInf(n, 0)
	case int:
		return float64(n), exact(int64(n))
	case int64:
		return float64(n), exact(n)
	case uint64:
		return float64(n), n < 1<<63 && exact(int64(n))
	}
	return nil, false
}

// exact tells whether a float64 holds n.
func exact(n int64) bool {
	f := float64(n)
	return f < 1<<63 && int64(f) == n
}

// validText returns a text as JSON would hold it: U+FFFD for each byte that is not
// UTF-8.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
