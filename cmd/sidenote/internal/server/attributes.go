package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// UnknownAttributes warns of filters of tenants that name an attribute which none of their
// documents has: most likely it is misspelt, and nothing is found, or too much. A tenant
// with a vector store gets no warning, because that does not tell its attributes.
func (b *Bases) UnknownAttributes() (lines []string) {
	for _, name := range b.cfg.Load().TenantNames() {
		p, _ := b.cfg.Load().Tenant(name)
		var keys []string
		for one := range p.All {
			keys = slices.AppendSeq(keys, one.Rewrite.Filter.Keys)
		}
		if len(keys) == 0 {
			continue
		}
		known, all := b.attributesOf(p.Rewrite.Knowledge)
		if !all {
			continue
		}
		there := thereIs(known)
		for _, key := range keys {
			if known[key] {
				continue
			}
			known[key] = true // from now on: it is named once
			lines = append(lines, fmt.Sprintf("tenant %s: no document of %s has the attribute %q that its filters name; %s",
				name, strings.Join(p.Rewrite.Knowledge, ", "), key, there))
		}
	}
	return lines
}

// attributesOf returns the attributes that documents of some bases have, and whether
// these are all.
func (b *Bases) attributesOf(bases []string) (known map[string]bool, all bool) {
	known = map[string]bool{}
	for _, id := range bases {
		base := b.made.Load().embedded[id]
		if base == nil || base.Content() == nil {
			return nil, false
		}
		for _, a := range base.Content().Attributes() {
			known[a.Key] = true
		}
	}
	return known, true
}

func thereIs(known map[string]bool) string {
	if len(known) == 0 {
		return "none has any"
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}
