// Package folder reads a folder of documents. It selects files by patterns, ignore files and
// safety rules, extracts their documents and assigns attributes by the rules of the folder. Watch
// reports when to read a folder again, and a ChildReader reads files that may need much memory in
// a child process.
package folder

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/bmatcuk/doublestar/v4"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
)

// A Folder describes what to read for a knowledge base.
type Folder struct {
	ID      string   // of the base, [a-z0-9_-]{1,64}
	Path    string   // a folder, or one file
	Within  string   // a folder that Path must stay in, even through links; "" allows any
	Include []string // doublestar patterns for slash-separated paths below Path; empty includes all
	Exclude []string // like Include; takes precedence over it

	// Attributes are set on all documents. Others come from PathPattern and from the documents
	// themselves: from a record, or for FrontMatter from a Markdown file. If several define a key,
	// the first in this order wins: filters decide who may see a document, and the author of a
	// text must not overrule the owner of the folder.
	//
	// A value that cannot be an attribute, see chunk.Attribute, is an error here. In a document it
	// is left out and reported in the report's Notes; so is everything beyond 64 attributes,
	// counted in the order above.
	Attributes map[string]any
	// PathPattern takes attributes from the path below Path, such as {product}/{version}/** or
	// {lang}-{year}/**. {name} matches a non-empty part of a path segment, * and ? match any text
	// and any character in a segment, and ** matches any number of segments, at the end at least
	// the file name. If a path matches in several ways, the first names are as short as possible.
	// A file whose path does not match gets no attributes from it, and records in it lose their
	// own attributes of these names; a front matter keeps those that FrontMatter lists.
	PathPattern string
	// FrontMatter lists the front matter keys of Markdown files that become attributes: scalars
	// and lists of strings as in YAML, except that dates stay strings. Records and pages have no
	// front matter, however their text begins.
	FrontMatter []string
	// URL is the address of a document at which people read it, such as https://wiki/{path}: {path}
	// is the path of its file below Path, escaped. It becomes the attribute "url", unless one of
	// the above has that key. "" sets none.
	URL string
	// Address returns the address of a file instead of URL, where each file has its own; "" for none. nil
	// leaves it to URL.
	Address func(file string) string

	// OCR is a program that prints the text of an image or a scanned PDF, and its arguments; the path
	// of the file follows them. Without it, such files are skipped. A file has two minutes and 4 MB
	// of text, and two programs run at a time. The program gets a copy of the file in a folder of
	// its own, and of the environment only what it needs to run.
	OCR []string

	// Remote describes the place that the folder is a mirror of; "" for a folder of its own.
	Remote string
	// AcceptDeletions confirms that a folder from which most files are gone was emptied on
	// purpose, see Library.Sync.
	AcceptDeletions bool
}

// Validate returns an error for invalid patterns and attributes.
func (f Folder) Validate() error {
	if err := f.checkPatterns(); err != nil {
		return err
	}
	_, err := NewRules(f)
	return err
}

// Origin returns a string that identifies the folder and its rules, but not the base.
func (f Folder) Origin() string {
	place := f.Place()
	if abs, err := filepath.Abs(place); err == nil && f.Remote == "" {
		place = abs
	}
	list := func(patterns []string) string { return string(chunk.Fields(patterns...)) }
	parts := []string{list(f.Include), list(f.Exclude)}
	switch attributes, err := NewRules(f); {
	case err != nil:
		parts = append(parts, err.Error())
	case attributes.Name != Rules{}.Name:
		parts = append(parts, string(attributes.Name[:]))
	}
	rules := sha256.Sum256(chunk.Fields(parts...))
	return fmt.Sprintf("%s %x", place, rules[:8])
}

// Place returns what the folder is for people: the path, or for a mirror what it is a mirror of.
func (f Folder) Place() string { return cmp.Or(f.Remote, f.Path) }

// Wants reports whether a file is worth fetching from elsewhere, by its path: it is read, unless its
// content forbids it, or has rules for others.
func (f Folder) Wants(file string) bool {
	if slices.Contains(ignoreFiles[:], path.Base(file)) {
		return true
	}
	if matchAny(f.Exclude, file) || len(f.Include) > 0 && !matchAny(f.Include, file) {
		return false
	}
	switch extract.Of(file) {
	case extract.Unknown:
		return path.Ext(file) == "" // it may be a script
	case extract.Image:
		return len(f.OCR) > 0
	}
	return true
}

// checkPatterns returns an error for an invalid pattern.
func (f Folder) checkPatterns() error {
	for _, p := range slices.Concat(f.Include, f.Exclude) {
		if !doublestar.ValidatePattern(p) {
			return fmt.Errorf("pattern %q: %w", p, doublestar.ErrBadPattern)
		}
	}
	return nil
}
