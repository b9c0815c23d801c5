package filter

import (
	"fmt"
	"strings"
)

// A Claim is a placeholder in a Filter for the caller's values of the token claim of that name: as
// the value of an eq for a single value, of an in for all values. A filter with a Claim matches
// nothing until WithClaims has replaced it.
type Claim string

// claimOf returns the Claim that a value in a configuration denotes.
func claimOf(v any) (Claim, bool) {
	written, _ := v.(map[string]any)
	name, ok := written["claim"].(string)
	return Claim(name), ok && name != "" && len(written) == 1
}

// A ClaimError says why a filter cannot be made from a caller's claims.
type ClaimError struct {
	Claim  Claim
	Reason string // for people, without values of the token
}

// Error returns a message that names the claim.
func (e *ClaimError) Error() string { return fmt.Sprintf("claim %q %s", string(e.Claim), e.Reason) }

// Claims calls yield with each claim in the filter until yield returns false.
func (f *Filter) Claims(yield func(Claim) bool) { f.eachClaim(yield) }

func (f *Filter) eachClaim(yield func(Claim) bool) (more bool) {
	if f == nil {
		return true
	}
	if claim, ok := f.Value.(Claim); ok {
		return yield(claim)
	}
	for i := range f.Filters {
		if !f.Filters[i].eachClaim(yield) {
			return false
		}
	}
	return true
}

// WithClaims returns the filter with its claims replaced by a caller's values. The error is a
// *ClaimError if a claim is missing or empty, has several values for a single comparison, or has
// more or longer values than a filter may have. A filter without claims is returned itself.
func (f *Filter) WithClaims(claims map[string][]string) (*Filter, error) {
	for range f.Claims {
		out, err := f.withClaims(claims)
		if err != nil {
			return nil, err
		}
		return &out, nil
	}
	return f, nil
}

// claimStart begins the text that stands for a claim.
const claimStart = "${claims."

// NamesClaims reports whether a filter was returned by WithClaimNames and has the name of a claim. A
// text that is written like one counts, too.
func (f *Filter) NamesClaims() bool {
	values, list := f.Value.([]any)
	if !list {
		values = []any{f.Value}
	}
	for _, v := range values {
		if text, ok := v.(string); ok && strings.HasPrefix(text, claimStart) {
			return true
		}
	}
	for i := range f.Filters {
		if f.Filters[i].NamesClaims() {
			return true
		}
	}
	return false
}

// WithClaimNames returns the filter with each claim replaced by the text ${claims.NAME}, for
// display.
func (f *Filter) WithClaimNames() *Filter {
	out := *f
	if claim, ok := f.Value.(Claim); ok {
		text := claimStart + string(claim) + "}"
		if out.Value = text; f.Type == In {
			out.Value = []any{text}
		}
	}
	if f.Filters != nil {
		out.Filters = make([]Filter, len(f.Filters))
		for i := range f.Filters {
			out.Filters[i] = *f.Filters[i].WithClaimNames()
		}
	}
	return &out
}

func (f *Filter) withClaims(claims map[string][]string) (out Filter, err error) {
	out = *f
	if claim, ok := f.Value.(Claim); ok {
		out.Value, err = f.claimValue(claim, claims[string(claim)])
		return out, err
	}
	if f.Filters == nil {
		return out, nil
	}
	out.Filters = make([]Filter, len(f.Filters))
	for i := range f.Filters {
		if out.Filters[i], err = f.Filters[i].withClaims(claims); err != nil {
			return Filter{}, err
		}
	}
	return out, nil
}

// claimValue returns the value of a comparison for the values of a claim.
func (f *Filter) claimValue(claim Claim, values []string) (any, error) {
	list := make([]any, len(values))
	for i, v := range values {
		if v == "" {
			return nil, &ClaimError{claim, "has an empty value"}
		}
		if len(v) > maxText {
			return nil, &ClaimError{claim, fmt.Sprintf("has a value of more than %d bytes", maxText)}
		}
		list[i] = v
	}
	switch {
	case len(list) == 0:
		return nil, &ClaimError{claim, "is missing or empty"}
	case len(list) > maxValues:
		return nil, &ClaimError{claim, fmt.Sprintf("has more than %d values", maxValues)}
	case f.Type == In:
		return list, nil
	case f.Type == Eq && len(list) == 1:
		return list[0], nil
	}
	return nil, &ClaimError{claim, fmt.Sprintf("has %d values where one is compared", len(list))}
}
