package rewrite

import (
	"fmt"
	"slices"

	"sidenote/rewrite/similar"
)

// NameBases sets the bases that a request asks for; param is the header or field that names them.
func NameBases(o *Options, param string, ids []string) {
	o.Knowledge, o.Named = ids, []NamedBases{{Param: param, IDs: ids}}
}

// MistypedBase returns an *OptionError if a request names a base that is not among has, the
// policy's bases, but is spelled almost like one of them. A base that the request also names
// exactly is never suggested: a client may send the names of several tenants' bases and gets
// those of its policy. Only the policy's own bases are suggested, so nothing is revealed about
// others.
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
