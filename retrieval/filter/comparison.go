package filter

// Comparison returns the operands of a filter that is neither "and" nor "or": the name of the
// attribute, and the values, each a string, a finite float64 or a bool. There is one value, or for
// in and nin those of the list, which may be empty. ok is false if the value is invalid; the
// filter then matches nothing.
//
// An index of attributes uses it to find what Match would match.
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
