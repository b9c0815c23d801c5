package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/rewrite"
)

// expandPolicies merges each policy with those that it extends and with the defaults: maps are
// merged, lists and scalars replaced. Experiments are not inherited.
func (c checker) expandPolicies() {
	whole := make(map[Name]Policy, len(c.Policies))
	for _, name := range sortedKeys(c.Policies) {
		chain, ok := c.chain(name)
		if !ok {
			chain = chain[:1] // check it by itself
		}
		p := DefaultPolicy()
		for _, link := range slices.Backward(chain) {
			m := c.places["policies."+string(link)]
			p.Experiment = Experiment{}   // not inherited
			var again strictyaml.Problems // were reported when the file was read
			d := strictyaml.Decoder{File: m.File, Marks: strictyaml.Marks{}, Problems: &again, Variables: strictyaml.Variables{Lookup: c.env}, Fields: c.fields}
			d.Value("", m.Node, reflect.ValueOf(&p).Elem(), "")
		}
		if _, own := c.places["policies."+string(name)+".ladder"]; p.Grounding == rewrite.GroundingStrict && !own {
			p.Ladder = grounded(p.Ladder)
		}
		c.inheritRecordKey(&p, chain)
		expandOverrides(c, &p, chain)
		whole[name] = p
	}
	c.Policies = whole
}

// chain lists a policy, the one that it extends, and so on.
func (c checker) chain(name Name) (chain []Name, ok bool) {
	for at := name; ; {
		chain = append(chain, at)
		next := c.Policies[at].Extends
		if next == "" {
			return chain, true
		}
		if slices.Contains(chain, next) {
			if next == name { // only members of a cycle report it, not policies that extend one
				c.problem("policies."+string(name)+".extends", "goes round in a circle: %s", strings.Join(append(Texts(chain), string(next)), " → "))
			}
			return chain, false
		}
		if _, defined := c.Policies[next]; !defined {
			if at == name {
				known(c.Config, "policies."+string(name)+".extends", "policy", next, c.Policies)
			}
			return chain, false
		}
		at = next
	}
}

func itoa(i int) string { return strconv.Itoa(i) }
