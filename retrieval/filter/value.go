package filter

import (
	"math"
	"unicode/utf8"
)

// Values of attributes and of filters come from JSON, YAML and Go. They are compared, and written
// to cache keys, as strings, finite float64s, bools, or lists of them. A value that cannot be
// converted to one of these is invalid: it "has no form".

// hasForm reports whether the value of a comparison is valid: a list for in and nin, a single
// value for others.
func (f *Filter) hasForm() bool {
	if f.Type != In && f.Type != Nin {
		_, ok := value(f.Value)
		return ok
	}
	if _, plain := value(f.Value); plain {
		return false
	}
	_, ok := anyOf(f.Value, func(any) bool { return false })
	return ok
}

// anyOf reports whether is holds for v or, if v is a list, for one of its elements. ok is false if
// v is invalid.
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

// value converts a single value. Integers are valid if a float64 can represent them exactly.
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

// exact reports whether a float64 can represent n exactly.
func exact(n int64) bool {
	f := float64(n)
	return f < 1<<63 && int64(f) == n
}

// validText returns a text as JSON can represent it, with U+FFFD for each byte that is not UTF-8.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
