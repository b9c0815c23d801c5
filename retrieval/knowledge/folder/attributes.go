package folder

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
)

// rulesVersion is the version of the code that derives attributes by the rules of a folder. Change
// it with that code.
const rulesVersion = "5"

// RulesBytes is the length of Rules.Name, which is part of the hash of a document.
const RulesBytes = 8

// Rules define where the documents of a folder get their attributes from. With the zero value they
// have only the attributes in records.
type Rules struct {
	constants   map[string]any
	path        *pathPattern // may be nil
	frontMatter []string
	url         func(file string) string // may be nil
	Name        [RulesBytes]byte         // identifies the rules; zero if there are none
}

// NewRules compiles the rules of a folder.
func NewRules(f Folder) (r Rules, err error) {
	constants, err := chunk.EncodeAttributes(f.Attributes)
	if err != nil {
		return r, err
	}
	if r.constants, err = chunk.DecodeAttributes(constants); err != nil {
		return r, err
	}
	if f.PathPattern != "" {
		if r.path, err = newPathPattern(f.PathPattern); err != nil {
			return r, err
		}
		if n := len(r.constants) + len(r.path.names); n > chunk.MaxAttributes {
			return r, fmt.Errorf("path pattern %q: there are %d attributes, more than %d", f.PathPattern, n, chunk.MaxAttributes)
		}
	}
	r.frontMatter = slices.Compact(slices.Sorted(slices.Values(f.FrontMatter)))
	for _, key := range r.frontMatter {
		if _, err := chunk.Attribute(key, true); err != nil {
			return r, fmt.Errorf("front matter: %w", err)
		}
	}
	if r.url, err = urlOf(f); err != nil {
		return r, err
	}
	if len(r.constants) > 0 || r.path != nil || len(r.frontMatter) > 0 || r.url != nil {
		parts := append([]string{"sidenote attributes", rulesVersion, constants, f.PathPattern}, r.frontMatter...)
		if r.url != nil {
			parts = append(parts, "url "+f.URL)
		}
		name := sha256.Sum256(chunk.Fields(parts...))
		r.Name = [RulesBytes]byte(name[:])
	}
	return r, nil
}

// Apply returns a document of a file with its attributes, as chunk.Attribute returns them. Each
// key has the value from the strongest source that contains it. modified is the time of the file if
// it matters, see Source.Times. The notes name what was left out.
func (r Rules) Apply(file string, d chunk.Document, modified string) (_ chunk.Document, notes []Note) {
	note := func(err error) { notes = append(notes, Note{Document: d.ID, Reason: err.Error()}) }
	sources := []map[string]any{r.constants, nil, r.ofRecord(d.Attributes), nil, nil}
	if r.path != nil {
		sources[1] = r.path.values(file)
	}
	if d.FrontMatter && len(r.frontMatter) > 0 {
		var errs []error
		sources[3], errs = frontAttributes(d.Text, r.frontMatter)
		for _, err := range errs {
			note(err)
		}
	}
	if r.url != nil {
		if address := r.url(file); address != "" {
			sources[4] = map[string]any{"url": address}
		}
	}
	said := versionAttributes(d)
	if modified != "" {
		if said == nil {
			said = map[string]any{}
		}
		said[retrieval.FileTimeAttribute] = modified
	}
	d.Attributes = nil
	taken := map[string]bool{} // keys seen so far; a key whose value was left out is not taken from a weaker source
	crowd := 0                 // attributes beyond the limit
	for _, source := range sources {
		for _, key := range slices.Sorted(maps.Keys(source)) {
			if taken[key] {
				continue
			}
			taken[key] = true
			v, err := chunk.Attribute(key, source[key])
			switch {
			case err != nil:
				note(err)
			case len(d.Attributes) == chunk.MaxAttributes:
				crowd++
			case d.Attributes == nil:
				d.Attributes = map[string]any{key: v}
			default:
				d.Attributes[key] = v
			}
		}
	}
	for key, v := range said {
		if len(d.Attributes) < chunk.MaxAttributes {
			if d.Attributes == nil {
				d.Attributes = map[string]any{}
			}
			d.Attributes[key] = v
		}
	}
	if crowd > 0 {
		note(fmt.Errorf("%d attributes beyond the first %d", crowd, chunk.MaxAttributes))
	}
	return d, notes
}

// versionAttributes returns what the front matter of a document says of its version: date, version
// and supersedes, under names of their own, so that authors set no attribute that filters match.
// What is no attribute says nothing.
func versionAttributes(d chunk.Document) map[string]any {
	if !d.FrontMatter || !strings.HasPrefix(d.Text, "---") {
		return nil
	}
	found, _ := frontAttributes(d.Text, []string{"date", "version", "supersedes"})
	said := map[string]any{}
	if _, number := found["version"].(float64); number { // 1.10 is not 1.1
		found["version"] = valueText(d.Text, "version")
	}
	for key, v := range found {
		key = retrieval.VersionAttributes + key
		if v, err := chunk.Attribute(key, v); err == nil {
			said[key] = v
		}
	}
	return said
}

// Timed returns the name of the rules for files whose time matters.
func (r Rules) Timed() [RulesBytes]byte {
	name := sha256.Sum256(append([]byte("sidenote file times "), r.Name[:]...))
	return [RulesBytes]byte(name[:])
}

// ofRecord returns a record's own attributes without the names in the path pattern: a file whose
// path does not match must not claim that it does.
func (r Rules) ofRecord(attributes map[string]any) map[string]any {
	if r.path == nil {
		return attributes
	}
	attributes = maps.Clone(attributes)
	for _, name := range r.path.names {
		delete(attributes, name)
	}
	return attributes
}
