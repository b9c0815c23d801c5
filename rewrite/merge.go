package rewrite

import (
	"cmp"
	"slices"
)

// MergeOptions combines the options in a request's headers with those in its body field. The
// narrower limit wins: the lower mode, fewer tokens, the bases that both name. Of two queries the
// body's wins, as it is closer to the question.
func MergeOptions(header, body Options) Options {
	o := body
	o.Mode = lower(header.Mode, body.Mode)
	o.ContextTokens = lower(header.ContextTokens, body.ContextTokens)
	o.Named = slices.Concat(header.Named, body.Named)
	switch {
	case o.Knowledge == nil:
		o.Knowledge = header.Knowledge
	case header.Knowledge != nil:
		both := make([]string, 0, len(o.Knowledge))
		for _, id := range o.Knowledge {
			if slices.Contains(header.Knowledge, id) {
				both = append(both, id)
			}
		}
		o.Knowledge = both
	}
	if o.Query == "" {
		o.Query = header.Query
	}
	return o
}

// lower returns the lower of two limits; nil means no limit.
func lower[T cmp.Ordered](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	least := min(*a, *b)
	return &least
}
