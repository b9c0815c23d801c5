package rewrite

import (
	"fmt"
	"slices"

	"sidenote/rewrite/similar"
)

// namedBases are the bases that a header or a body field names.
type namedBases struct {
	param string
	ids   []string
}

// NameBases makes ids the bases that a request asks for; param is where it names them.
func (o *Options) NameBases(param string, ids []string) {
	o.Knowledge, o.named = ids, []namedBases{{param, ids}}
}

// Mistyped returns an *OptionError where a request names a base that its policy, which has
// these, does not have, and one of them is spelled nearly so. A base that the request names
// too is not taken for what it meant: who sends the names of several tenants' bases gets
// those of the policy. Only the policy's own bases matter, so nothing is learned of others.
func (o Options) Mistyped(has []string) error {
	for _, named := range o.named {
		for _, id := range named.ids {
			if slices.Contains(has, id) {
				continue
			}
			if meant := similar.Word(id, has); meant != "" && !slices.Contains(named.ids, meant) {
				return &OptionError{named.param, fmt.Sprintf("there is no knowledge base %q here; did you mean %s?", id, meant)}
			}
		}
	}
	return nil
}
