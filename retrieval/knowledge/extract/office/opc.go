package office

import (
	"cmp"
	"encoding/xml"
	"maps"
	"path"
	"slices"
	"strings"
)

// A relation is a part that another part refers to by an id.
type relation struct {
	kind string // the last element of its type, such as "worksheet"
	part string
}

// relations returns the parts that a part refers to, by id (ECMA-376 part 2, 6.5).
func (a *archive) relations(part string) (map[string]relation, error) {
	all := map[string]relation{}
	dir, name := path.Split(part)
	err := a.each(dir+"_rels/"+name+".rels", func(t xml.Token) error {
		e, ok := t.(xml.StartElement)
		if !ok || e.Name.Local != "Relationship" || value(e, "TargetMode") == "External" {
			return nil
		}
		target := value(e, "Target")
		if !strings.HasPrefix(target, "/") {
			target = path.Join(dir, target)
		}
		all[value(e, "Id")] = relation{kind: path.Base(value(e, "Type")), part: strings.TrimPrefix(target, "/")}
		return nil
	})
	return all, err
}

// mainPart returns the part of the document itself.
func (a *archive) mainPart() (string, error) {
	all, err := a.relations("")
	if err != nil {
		return "", err
	}
	for _, r := range all {
		if r.kind == "officeDocument" && a.files[r.part] != nil {
			return r.part, nil
		}
	}
	return "", a.broken()
}

// related returns the first part of a kind among all, by id; "" if there is none.
func related(all map[string]relation, kind string) string {
	id, part := "", ""
	for key, r := range all {
		if r.kind == kind && (id == "" || key < id) {
			id, part = key, r.part
		}
	}
	return part
}

// title returns the title in the document's properties.
func (a *archive) title() (string, error) {
	var title titleReader
	err := a.each(propertiesPart, title.token)
	return strings.Join(strings.Fields(title.text), " "), err
}

// sortedIDs returns the ids of relations in order.
func sortedIDs(all map[string]relation) []string {
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
}
