package folder

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// A Report says what reading a base came to.
type Report struct {
	Files   int    // read
	Chunks  int    // that they were cut into
	Bytes   int    // of their texts
	Skipped []Skip // by path
	Written int    // documents that are new or say something else than before
	Notes   []Note // by document

	// Of a Sync only.
	Added     int      // of those written: the documents that were not there before
	Unchanged int      // documents that say the same as before
	Removed   int      // documents whose files are gone, or yield none any more
	Gone      []string // their ids, sorted
}

// A Note says what was left out of a document that was read: an attribute of a type that
// there is not, a front matter that is not YAML.
type Note struct {
	Document string // id
	Reason   string // for people
}

// Sort puts the lists in order, which are made by several goroutines at once.
func (r *Report) Sort() {
	slices.SortFunc(r.Skipped, func(a, b Skip) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(r.Notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.Document, b.Document), cmp.Compare(a.Reason, b.Reason))
	})
}

// A Skip is a file or folder that was not read, or not all of it.
type Skip struct {
	Path   string // slash-separated, below the folder
	Kind   SkipKind
	Reason string // for people
}

// Duplicate says that a document was left out because another file has one of its id.
func Duplicate(id string) Skip {
	return Skip{Path: id, Kind: SkipDuplicate, Reason: "another file has a document of this id"}
}

// TooLarge says that a document was left out because it is too large for the index.
func TooLarge(id string, why error) *Skip {
	return &Skip{Path: id, Kind: SkipTooLarge, Reason: why.Error()}
}

// NoMemory says that a file was not read for want of memory.
func NoMemory(file, reason string) *Skip { return &Skip{Path: file, Kind: SkipMemory, Reason: reason} }

// SkipKind says why something was not read. It is a closed list and a metric label.
type SkipKind string

// The kinds.
const (
	SkipUnsupported SkipKind = "unsupported" // no format that is read, by its name
	SkipTooLarge    SkipKind = "too-large"   // more than MaxFile
	SkipNotText     SkipKind = "not-text"    // in no encoding that could be recognised
	SkipBroken      SkipKind = "broken"      // damaged or hostile; what could be read of it was read
	SkipDuplicate   SkipKind = "duplicate"   // a document whose id another one has
	SkipSecret      SkipKind = "secret"      // a key or an environment file by its name
	SkipHidden      SkipKind = "hidden"      // its name starts with a dot
	SkipVendored    SkipKind = "vendored"    // node_modules
	SkipGenerated   SkipKind = "generated"   // made by a program, by the rule in Reason
	SkipLink        SkipKind = "link"        // leaves the folder, or leads to no file
	SkipUnreadable  SkipKind = "unreadable"  // the system says no
	SkipMemory      SkipKind = "memory"      // reading it takes more memory than is free
	SkipAttributes  SkipKind = "attributes"  // some of its documents' attributes; its texts were read
)

// Summary puts the skipped into one line, such as "skipped 18: 12 PDF
// (unsupported), 4 over 10 MB, 2 not text; 3 as likely secrets (.env, …)". It is
// "" where nothing was skipped.
func (r Report) Summary() string {
	kinds, first, types := map[SkipKind]int{}, map[SkipKind]string{}, map[string]int{}
	for _, s := range r.Skipped {
		kinds[s.Kind]++
		first[s.Kind] = cmp.Or(first[s.Kind], path.Base(s.Path))
		if s.Kind == SkipUnsupported {
			types[typeOf(s.Path)]++
		}
	}
	parts := summariseTypes(types)
	for _, k := range []struct {
		kind SkipKind
		text string
	}{
		{SkipTooLarge, "over 10 MB"}, {SkipNotText, "not text"}, {SkipBroken, "broken"}, {SkipDuplicate, "with the id of another"}, {SkipUnreadable, "unreadable"}, {SkipMemory, "for want of memory"},
		{SkipLink, "links"}, {SkipVendored, "node_modules"}, {SkipGenerated, "generated"}, {SkipHidden, "hidden"},
	} {
		if n := kinds[k.kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, k.text))
		}
	}
	var lists []string
	if len(parts) > 0 {
		lists = append(lists, fmt.Sprintf("skipped %d: %s", len(r.Skipped)-kinds[SkipSecret]-kinds[SkipAttributes], strings.Join(parts, ", ")))
	}
	switch n := kinds[SkipSecret]; {
	case n == 1:
		lists = append(lists, fmt.Sprintf("1 as a likely secret (%s)", first[SkipSecret]))
	case n > 1:
		lists = append(lists, fmt.Sprintf("%d as likely secrets (%s, …)", n, first[SkipSecret]))
	}
	if len(lists) == 1 && len(parts) == 0 {
		lists[0] = "skipped " + lists[0]
	}
	unfits, unfit := kinds[SkipAttributes], first[SkipAttributes]
	for i, n := range r.Notes {
		if unfit = cmp.Or(unfit, n.Document); i == 0 || n.Document != r.Notes[i-1].Document {
			unfits++
		}
	}
	switch {
	case unfits == 1:
		lists = append(lists, fmt.Sprintf("attributes left out of 1 file (%s)", unfit))
	case unfits > 1:
		lists = append(lists, fmt.Sprintf("attributes left out of %d files (%s, …)", unfits, unfit))
	}
	return strings.Join(lists, "; ")
}

// maxTypes is how many unsupported types Summary names.
const maxTypes = 3

// summariseTypes names the most frequent types, most frequent first.
func summariseTypes(types map[string]int) (parts []string) {
	names := slices.SortedFunc(maps.Keys(types), func(a, b string) int { return cmp.Or(types[b]-types[a], cmp.Compare(a, b)) })
	rest := 0
	for i, t := range names {
		if i < maxTypes {
			parts = append(parts, fmt.Sprintf("%d %s (unsupported)", types[t], t))
		} else {
			rest += types[t]
		}
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%d of other types", rest))
	}
	return parts
}

// typeOf names a file's type by its extension.
func typeOf(name string) string {
	ext := path.Ext(name)
	if len(ext) < 2 {
		return "without extension"
	}
	return strings.ToUpper(ext[1:])
}
