// Package folder reads a folder of documents: which files there are, by patterns, ignore
// files and what is safe to read; what documents are in each; and what attributes they
// have, by the rules of the folder. Watch tells when to read it again,
// and a ChildReader reads files that may take much memory in a process of its own.
package folder

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/bmatcuk/doublestar/v4"

	"sidenote/retrieval/knowledge/chunk"
)

// A Folder says what to read for one knowledge base.
type Folder struct {
	ID      string   // of the base, [a-z0-9_-]{1,64}
	Path    string   // a folder, or one file
	Within  string   // a folder that Path must stay in, whatever links are put there; "" is anywhere
	Include []string // doublestar patterns on slash-separated paths below Path; none is everything
	Exclude []string // likewise; stronger than Include

	// Attributes are what all documents have. Others come from PathPattern, and from
	// what a document says itself: a record its own, a Markdown file those of
	// FrontMatter. Where a key comes from several, the first in this order counts: filters
	// decide who may see a document, and the author of a text must not overrule the owner
	// of the folder.
	//
	// What cannot be an attribute, see chunk.Attribute, is an error here. In a document
	// it is left out and stands in the report's Notes; so does what is beyond 64
	// attributes, counted in the order above.
	Attributes map[string]any
	// PathPattern takes attributes from the path below Path, such as {product}/{version}/**
	// or {lang}-{year}/**: {name} stands for a part of a path segment, or all of it, that is
	// not empty. * and ? are any text and any character in a segment, ** is any number of
	// segments, at the end at least the name of the file. Where a path matches in several
	// ways, the first names are as short as possible. A file whose path does not match has
	// no attributes from it, and records in it lose their own of these names; a front matter
	// keeps those that FrontMatter lists.
	PathPattern string
	// FrontMatter are the keys in the front matters of Markdown files that become attributes:
	// scalars and lists of strings as in YAML, except that dates stay strings. Records and
	// pages have no front matter, whatever their text begins with.
	FrontMatter []string

	// AcceptDeletions says that a folder from which most files are gone was emptied on
	// purpose, see Library.Sync.
	AcceptDeletions bool
}

// Validate refuses patterns and attributes by which nothing can be read.
func (f Folder) Validate() error {
	if err := f.checkPatterns(); err != nil {
		return err
	}
	_, err := NewRules(f)
	return err
}

// Origin names the folder and the rules by which it is read, but not the base.
func (f Folder) Origin() string {
	place := f.Path
	if abs, err := filepath.Abs(place); err == nil {
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

// checkPatterns refuses patterns that nothing can match.
func (f Folder) checkPatterns() error {
	for _, p := range slices.Concat(f.Include, f.Exclude) {
		if !doublestar.ValidatePattern(p) {
			return fmt.Errorf("pattern %q: %w", p, doublestar.ErrBadPattern)
		}
	}
	return nil
}
