// Package knowledge is the embedded engine: it reads a folder of documents in
// many formats (package extract), cuts each document along its own structure,
// indexes the chunks and answers questions from them. It needs no server and no key.
//
// Reading makes a Content, which never changes; a Base holds the Content it
// answers from and swaps it whole, so a search never sees half of an index.
//
// A Library keeps bases on disk: it reads only what changed, and what its bases answer
// from lies in files that are mapped.
package knowledge

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path/filepath"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/extract/child"
)

// A Folder says what to read for one knowledge base.
type Folder struct {
	ID      string   // of the base, [a-z0-9_-]{1,64}
	Path    string   // a folder, or one file
	Within  string   // a folder that Path lies in, and stays in whatever links are put there; "" is anywhere
	Include []string // doublestar patterns on slash-separated paths below Path; none is everything
	Exclude []string // likewise; stronger than Include

	// Attributes are what all documents have. Others come from PathPattern, and from
	// what a document says itself: a record its own, a Markdown file those of
	// FrontMatter. Where a key comes from several, the first named here counts: filters
	// decide who may see a document, and whoever may write a text must not overrule who
	// set up the folder.
	//
	// What cannot be an attribute, see document.Attribute, is an error here. In a document
	// it is left out and stands in the report's Notes; so are those beyond 64, the first
	// named staying.
	Attributes map[string]any
	// PathPattern reads attributes off the path below Path, such as
	// {product}/{version}/** or {lang}-{year}/**: {name} is a part of a segment, or all
	// of it, as a string that is not empty. * and ? are any text and any character in a
	// segment, ** any number of segments, as the last one at least the name of the file.
	// Of several readings the first names are as short as can be. A file whose path is
	// not of the pattern has nothing from it, nor has a record there these names of its
	// own; a front matter has where FrontMatter lists them.
	PathPattern string
	// FrontMatter are the keys of the front matters of Markdown files that are attributes:
	// scalars and lists of strings, as YAML reads them, but dates, which are the string that
	// stands there. The text of a record or a page names none, whatever it begins with.
	FrontMatter []string

	// AcceptDeletions takes a folder that most of is gone from for one that was emptied,
	// see Library.Sync.
	AcceptDeletions bool
}

// Validate refuses patterns and attributes by which nothing can be read.
func (f Folder) Validate() error {
	if _, err := newWalk(nil, f, nil); err != nil {
		return err
	}
	_, err := newAttributeRules(f)
	return err
}

// Origin names the folder and the rules by which it is read, but not the base.
func (f Folder) Origin() string {
	place := f.Path
	if abs, err := filepath.Abs(place); err == nil {
		place = abs
	}
	list := func(patterns []string) string { return string(document.Fields(patterns...)) }
	parts := []string{list(f.Include), list(f.Exclude)}
	switch attributes, err := newAttributeRules(f); {
	case err != nil:
		parts = append(parts, err.Error())
	case attributes.name != attributeRules{}.name:
		parts = append(parts, string(attributes.name[:]))
	}
	rules := sha256.Sum256(document.Fields(parts...))
	return fmt.Sprintf("%s %x", place, rules[:8])
}

// Deps is what reading needs from the rest of Sidenote.
type Deps struct {
	// Counter measures chunks. It is used by several goroutines at once.
	Counter retrieval.Counter
	// Encodings count the tokens of chunks for a Library, by name; they too are used by
	// several goroutines at once. Sources come with the count in the query's encoding.
	Encodings map[string]retrieval.Counter
	// Neutralise takes the power from everything in a document that looks like
	// Sidenote's own tags; knowledge is the base that it goes into. It too is used by
	// several goroutines at once; nil leaves texts as they are.
	Neutralise func(knowledge, text string) string
	// Version names what all of them do: replicas that read the same documents
	// otherwise, as two releases may, must not share what they find, nor trust what the
	// other counted. It is part of the generation.
	Version string
	// Child reads the formats that are read in a process of their own; nil leaves
	// files in them unread, as unsupported.
	Child *child.Runner
	// Progress, if not nil, is told now and then how far reading has come; never
	// twice at the same time.
	Progress func(Progress)
}

// Progress says how far the reading of a base has come.
type Progress struct {
	Knowledge string
	Files     int // to read
	Done      int // of them
	Chunks    int // cut so far
}

// Load reads the folder. What cannot be read, and what should not be, is skipped
// and stands in the report; only a folder that cannot be opened, a pattern or
// an attribute that is none, or ctx's end is an error. Links are followed to files inside the folder only.
func Load(ctx context.Context, folder Folder, deps Deps) (*Content, Report, error) {
	dir, file, err := openFolder(folder)
	if err != nil {
		return nil, Report{}, fmt.Errorf("knowledge %s: %w", folder.ID, err)
	}
	defer func() { _ = dir.Close() }()
	return load(ctx, dir.FS(), file, folder, deps)
}

// FromFS is Load from a file system, such as documents embedded in the binary.
// folder.Path is not used.
func FromFS(ctx context.Context, fsys fs.FS, folder Folder, deps Deps) (*Content, Report, error) {
	return load(ctx, fsys, "", folder, deps)
}

// FromDocuments makes the content of documents at hand. Their order does not
// matter. An id that is empty or comes twice is an error, and so is an attribute that
// document.Attribute refuses.
func FromDocuments(ctx context.Context, documents []document.Document, deps Deps) (*Content, Report, error) {
	checked := make([]document.Document, len(documents))
	for i, d := range documents {
		if d.ID == "" {
			return nil, Report{}, fmt.Errorf("document %d has no id", i)
		}
		var err error
		if checked[i], err = d.Normal(); err != nil {
			return nil, Report{}, err
		}
	}
	b := newBuild(Folder{}, deps, len(documents))
	return b.run(ctx, func(_ context.Context, i int) ([]document.Document, *Skip) { return checked[i : i+1], nil })
}

func load(ctx context.Context, fsys fs.FS, file string, folder Folder, deps Deps) (*Content, Report, error) {
	w, err := newWalk(fsys, folder, deps.supported)
	if err != nil {
		return nil, Report{}, fmt.Errorf("knowledge %s: %w", folder.ID, err)
	}
	rules, err := newAttributeRules(folder)
	if err != nil {
		return nil, Report{}, fmt.Errorf("knowledge %s: %w", folder.ID, err)
	}
	if file != "" {
		w.files = []string{file}
	} else if err := w.run(ctx); err != nil {
		return nil, Report{}, fmt.Errorf("knowledge %s: %w", folder.ID, err)
	}
	b := newBuild(folder, deps, len(w.files))
	b.rules, b.report.Skipped = rules, w.skipped
	return b.run(ctx, func(ctx context.Context, i int) ([]document.Document, *Skip) {
		documents, skip := readFile(ctx, fsys, w.files[i], deps)
		for j, d := range documents {
			documents[j], _ = b.derive(w.files[i], d)
		}
		return documents, skip
	})
}
