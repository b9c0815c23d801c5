package rewrite

import (
	"fmt"
	"slices"

	"sidenote/rewrite/similar"
)

// NameBases makes ids the bases that a request asks for; param is where it names them.
func NameBases(o *Options, param string, ids []string) {
	o.Knowledge, o.Named = ids, []NamedBases{{Param: param, IDs: ids}}
}

// MistypedBase returns a *OptionError where a request names a base that its policy, which has
// these, does not have, and one of them is spelled nearly so. A base that the request names
// too is not taken for what it meant: who sends the names of several tenants' bases gets
// those of the policy. Only the policy's own bases matter, so nothing is learned of others.
func MistypedBase(o Options, has []string) error {
	for _, named := range o.Named {
		for _, id := range named.IDs {
			if slices.Contains(has, id) {
				continue
			}
			if meant := similar.Word(id, has); meant != "" && !slices.Contains(named.IDs, meant) {
				return wrong(named.Param, fmt.Sprintf("there is no knowledge base %q here; did you mean %s?", id, meant))
			}
		}
	}
	return nil
}
