package tenant

import (
	"fmt"
	"slices"
	"strings"

	"sidenote/proxy/route"
	"sidenote/rewrite"
)

// An Override is the policy for some chats of a tenant, by model and path.
type Override struct {
	Models Models   // the request names one of them; nil for any
	Routes []string // suffixes of paths, such as "/chat/completions"; nil for any path
	Policy *Policy  // complete; of the same tenant and upstream, without Overrides of its own
}

// fits reports whether the override applies to requests to path that name model.
func (o *Override) fits(path, model string) bool {
	return o.Models.Allows(model) && (o.Routes == nil ||
		slices.ContainsFunc(o.Routes, func(route string) bool { return strings.HasSuffix(path, route) }))
}

// All yields the policy itself and those of its overrides.
func (p *Policy) All(yield func(*Policy) bool) {
	if !yield(p) {
		return
	}
	for i := range p.Overrides {
		if !yield(p.Overrides[i].Policy) {
			return
		}
	}
}

// Strict reports whether the policy or one of its overrides is strict: for a body that cannot be
// read it is unknown which of them applies.
func (p *Policy) Strict() bool {
	for one := range p.All {
		if one.Metered || one.Rewrite.Strict() {
			return true
		}
	}
	return false
}

// ForChat returns the policy for a chat that rewrite.Parse accepted: that of the first override
// that fits its path (as in route.Target) and its model, or p. If the model is ambiguous and
// different overrides fit its readings, it returns an error.
func (p *Policy) ForChat(path string, req *rewrite.Request) (*Policy, error) {
	if len(p.Overrides) == 0 {
		return p, nil
	}
	names, err := req.Models()
	if err != nil {
		return nil, err
	}
	names = append(names, route.Target{Path: path}.PathModels()...)
	if len(names) == 0 {
		names = []string{""}
	}
	chosen := p.override(path, names[0])
	for _, name := range names[1:] {
		if p.override(path, name) != chosen {
			return nil, &APIError{Reason: rewrite.ReasonAmbiguous, Param: "model", Message: fmt.Sprintf(
				"The request names the models %q and %q, to which different rules apply; name one.", Shortened(names[0]), Shortened(name))}
		}
	}
	return chosen, nil
}

func (p *Policy) override(path, model string) *Policy {
	for i := range p.Overrides {
		if o := &p.Overrides[i]; o.fits(path, model) {
			return o.Policy
		}
	}
	return p
}
