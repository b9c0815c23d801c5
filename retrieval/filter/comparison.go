package filter

// Comparison returns what a filter that is neither "and" nor "or" compares: the name of the
// attribute, and the values, each a string, a finite float64 or a bool. They are one value,
// and for in and nin those of the list, of which there may be none. ok is false where the
// value has no form: the filter matches nothing then.
//
// An index of attributes needs it to find what Match would.
func (f *Filter) Comparison() (key string, values []any, ok bool) {
	if !f.hasForm() {
		return "", nil, false
	}
	key = validText(f.Key)
	if f.Type != In && f.Type != Nin {
		v, _ := value(f.Value)
		return key, []any{v}, true
	}
	anyOf(f.Value, func(v any) bool {
		values = append(values, v)
		return false
	})
	return key, values, true
}
