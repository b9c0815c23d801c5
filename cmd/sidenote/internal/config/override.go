package config

import (
	"reflect"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// An Override changes a policy for some chats: those for one of Models, if any are given, on one
// of Routes, if any are given. The first override that matches a request applies. In a file it
// holds only the differences; in a Config its Treatment is complete.
type Override struct {
	Models    []modelPattern `yaml:"models,omitempty,flow"`
	Routes    []Route        `yaml:"routes,omitempty,flow"`
	Filters   []Filter       `yaml:"filters,omitempty"` // in addition to those of policy and tenant
	Treatment `yaml:",inline"`

	of *Treatment // the policy's, for printing
}

// MarshalYAML returns the override as it would be written by hand.
func (o Override) MarshalYAML() (any, error) {
	base := Override{}
	if o.of != nil {
		base.Treatment = *o.of
	}
	return changesOf(base, o), nil
}

// expandOverrides completes the overrides of an expanded policy. chain lists the policy and those
// that it extends.
func expandOverrides(c checker, p *Policy, chain []Name) {
	for i := range p.Overrides {
		for _, link := range chain {
			m, ok := c.places["policies."+string(link)+".overrides["+itoa(i)+"]"]
			if !ok {
				continue
			}
			o := Override{Treatment: p.Treatment}
			var again strictyaml.Problems // were reported when the file was read
			d := strictyaml.Decoder{File: m.File, Marks: strictyaml.Marks{}, Problems: &again, Variables: strictyaml.Variables{Lookup: c.env}, Fields: c.fields}
			d.Value("", m.Node, reflect.ValueOf(&o).Elem(), "")
			p.Overrides[i] = o
			break
		}
	}
}

// checkOverrides refuses overrides that make no sense.
func checkOverrides(c checker, policy string, p Policy) {
	for i, o := range p.Overrides {
		key := policy + ".overrides[" + itoa(i) + "]"
		if len(o.Models) == 0 && len(o.Routes) == 0 {
			c.problem(key, "is for every request; give it models or routes, or change the policy itself")
		}
		checkTreatment(c, key, o.Treatment)
	}
}

// with returns the policy as changed by an override.
func (p Policy) with(o Override) Policy {
	p.Treatment, p.Overrides = o.Treatment, nil
	p.Filters = append(p.Filters[:len(p.Filters):len(p.Filters)], o.Filters...)
	return p
}
