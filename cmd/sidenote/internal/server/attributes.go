package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// UnknownAttributes warns of tenants' filters that use an attribute which none of their documents
// has. Most likely it is misspelt, so the filter excludes everything or too little. Tenants with a
// vector store get no warning, because the store does not list its attributes.
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
			known[key] = true // report it only once
			lines = append(lines, fmt.Sprintf("tenant %s: no document of %s has the attribute %q that its filters name; %s",
				name, strings.Join(p.Rewrite.Knowledge, ", "), key, there))
		}
	}
	return lines
}

// attributesOf returns the attributes of the documents in some bases. all is false if they are not
// known for every base.
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
