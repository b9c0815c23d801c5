package tenant

import (
	"fmt"
	"slices"
	"strings"

	"sidenote/proxy/route"
	"sidenote/rewrite"
)

// An Override is what a policy becomes for some chats.
type Override struct {
	Models Models   // one of them is named; nil: whatever is named
	Routes []string // ends of paths, such as "/chat/completions"; nil: any path
	Policy *Policy  // whole; of the same tenant and upstream, and without Overrides
}

// fits tells whether the override is for requests to path that name model.
func (o *Override) fits(path, model string) bool {
	return o.Models.Has(model) && (o.Routes == nil ||
		slices.ContainsFunc(o.Routes, func(route string) bool { return strings.HasSuffix(path, route) }))
}

// All calls yield with the policy itself and with those of its overrides, until it returns
// false.
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

// Strict tells whether the policy, or what an override makes of it, is strict. Of a body that
// cannot be read it is not known which of them holds.
func (p *Policy) Strict() bool {
	for one := range p.All {
		if one.Metered || one.Rewrite.Strict() {
			return true
		}
	}
	return false
}

// ForChat returns the policy of a chat, in which rewrite.Parse found no fault: that of the first
// override that fits its path, as route.Target has it, and the model that it names, or p itself.
// If different overrides fit what several servers could read as the model, it returns an error.
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
