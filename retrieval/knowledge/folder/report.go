package folder

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// A Report is the outcome of reading a base.
type Report struct {
	Files   int    // files read
	Chunks  int    // chunks made
	Bytes   int    // length of their texts
	Skipped []Skip // sorted by path
	Written int    // documents that are new or changed
	Notes   []Note // sorted by document

	// Set by Sync only.
	Added     int      // documents in Written that did not exist before
	Unchanged int      // documents that have not changed
	Removed   int      // documents whose files are gone, or yield none any more
	Gone      []string // ids of removed documents, sorted
}

// A Note describes what was left out of a document that was read, for example an attribute of an
// invalid type or a front matter that is not YAML.
type Note struct {
	Document string // id
	Reason   string // for people
}

// Sort sorts the lists, which concurrent goroutines fill in any order.
func (r *Report) Sort() {
	slices.SortFunc(r.Skipped, func(a, b Skip) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(r.Notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.Document, b.Document), cmp.Compare(a.Reason, b.Reason))
	})
}

// A Skip is a file or folder that was not read, at least in part.
type Skip struct {
	Path   string // slash-separated, below the folder
	Kind   SkipKind
	Reason string // for people
}

// String says what was not read and what helps, for people.
func (s Skip) String() string {
	g := groupOf(s)
	text := s.Reason
	if g.Why != "" && g.Kind != SkipPart && g.Kind != SkipTwin {
		text = g.Why
	}
	if g.Kind == SkipUnsupported {
		text = s.Reason
		if g.Why != "" {
			text += ": " + g.Why
		}
	}
	if g.Remedy != "" {
		text += "; " + g.Remedy
	}
	return text
}

// Duplicate returns the Skip for a document whose id another file has.
func Duplicate(id string) Skip {
	return Skip{Path: id, Kind: SkipDuplicate, Reason: "another file has a document of this id"}
}

// SameAs returns the Skip for a document that is not searched because another one says the same in
// another format.
func SameAs(id, better string) Skip {
	return Skip{Path: id, Kind: SkipTwin, Reason: "same as " + better}
}

// TooLarge returns the Skip for a document that is too large for the index.
func TooLarge(id string, why error) *Skip {
	return &Skip{Path: id, Kind: SkipTooLarge, Reason: why.Error()}
}

// NoMemory returns the Skip for a file that was not read for lack of memory.
func NoMemory(file, reason string) *Skip { return &Skip{Path: file, Kind: SkipMemory, Reason: reason} }

// SkipKind is the reason why something was not read. It is a closed set, used as a metric label.
type SkipKind string

// The kinds.
const (
	SkipUnsupported SkipKind = "unsupported" // by its name, not a supported format
	SkipTooLarge    SkipKind = "too-large"   // more than MaxFile
	SkipNotText     SkipKind = "not-text"    // in no recognized encoding
	SkipBroken      SkipKind = "broken"      // damaged or hostile; nothing of it was read
	SkipPart        SkipKind = "part"        // read in part, except for what Reason names
	SkipGuessed     SkipKind = "guessed"     // read, in an encoding that is not certain
	SkipDuplicate   SkipKind = "duplicate"   // another document has the same id
	SkipTwin        SkipKind = "twin"        // the same as another document in another format, by Reason; read, but not searched
	SkipSecret      SkipKind = "secret"      // by its name, a key or an environment file
	SkipHidden      SkipKind = "hidden"      // its name starts with a dot
	SkipVendored    SkipKind = "vendored"    // node_modules
	SkipGenerated   SkipKind = "generated"   // made by a program, by the rule in Reason
	SkipLink        SkipKind = "link"        // leads out of the folder, or to no file
	SkipUnreadable  SkipKind = "unreadable"  // the system refuses to read it
	SkipMemory      SkipKind = "memory"      // reading it needs more memory than is free
	SkipAttributes  SkipKind = "attributes"  // some attributes of its documents were left out; the texts were read
)

// Summary returns one line about skipped files, such as "skipped 18: 12 PDF (unsupported), 4 over
// 10 MB, 2 not text; 3 as likely secrets (.env, …)". It is "" if nothing was skipped.
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
		{SkipTooLarge, "over 10 MB"}, {SkipNotText, "not text"}, {SkipBroken, "broken"}, {SkipPart, "read in part"}, {SkipDuplicate, "with the id of another"}, {SkipUnreadable, "unreadable"}, {SkipMemory, "for want of memory"},
		{SkipLink, "links"}, {SkipVendored, "node_modules"}, {SkipGenerated, "generated"}, {SkipHidden, "hidden"}, {SkipTwin, "the same as others"},
	} {
		if n := kinds[k.kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, k.text))
		}
	}
	var lists []string
	if len(parts) > 0 {
		lists = append(lists, fmt.Sprintf("skipped %d: %s", len(r.Skipped)-kinds[SkipSecret]-kinds[SkipAttributes]-kinds[SkipGuessed], strings.Join(parts, ", ")))
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
	if n := kinds[SkipGuessed]; n > 0 {
		lists = append(lists, fmt.Sprintf("encoding guessed of %d (%s)", n, first[SkipGuessed]))
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

const (
	// maxTypes is how many unsupported types Summary names.
	maxTypes = 30
	// maxType is the length of a type, in bytes.
	maxType = 16
)

// byCount returns the keys of counts, those with the greatest first.
func byCount(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
}

// summariseTypes returns the most frequent types, most frequent first.
func summariseTypes(types map[string]int) (parts []string) {
	rest := 0
	for i, t := range byCount(types) {
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

// typeOf returns a file's type according to its extension.
func typeOf(name string) string {
	ext := path.Ext(name)
	if len(ext) < 2 || len(ext) > maxType || strings.ContainsAny(ext, " ,;") {
		return "without extension"
	}
	return strings.ToUpper(ext[1:])
}
