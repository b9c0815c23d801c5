package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/bm25"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/extract"
)

// A Content is the documents of a base, cut and indexed, on shelves. It never
// changes. Shelves that are mapped files stay mapped for as long as anything holds
// the Content, such as a search that is under way when another takes its place.
type Content struct {
	shelves    []placed // as numbered in index
	index      *bm25.Index
	documents  int
	bytes      int64
	generation string
	part       bool   // see Part
	version    string // of what counted the tokens on the shelves
	floor      floor
	damaged    func(*shelfError)    // is told what a search met; nil if nobody cares
	sorted     func() []documentRef // the documents by id; sorts them once
	summary    func() []Attribute   // likewise
	filters    filterCache
}

// newContent indexes what is left on shelves.
func newContent(ctx context.Context, shelves []placed, generation string) (*Content, error) {
	c := &Content{shelves: shelves, generation: generation}
	c.sorted = sync.OnceValue(func() []documentRef { return slices.Collect(inOrder(shelves)) })
	c.summary = sync.OnceValue(func() []Attribute { return summarise(shelves) })
	live := make([]*bm25.Live, len(shelves))
	for i, s := range shelves {
		live[i] = s.live
		c.documents += s.left
		c.bytes += s.bytes
	}
	c.index = bm25.NewIndex(live, compare(shelves))
	var err error
	c.floor, err = calibrate(ctx, c.index)
	return c, err
}

// Documents returns how many documents there are.
func (c *Content) Documents() int { return c.documents }

// Chunks returns how many chunks they were cut into.
func (c *Content) Chunks() int { return c.index.Len() }

// Bytes returns how long their texts are.
func (c *Content) Bytes() int64 { return c.bytes }

// A Held is what a Content holds of one document.
type Held struct {
	ID, Name string
	Chunks   int
	Bytes    int // of their texts
	// Attributes are strings, float64s, bools and lists of strings, nil if there are
	// none or where they are damaged. Documents may share them: nobody changes them.
	Attributes map[string]any
}

// Held returns the i-th document by id, 0 <= i < Documents. The first call sorts
// them.
func (c *Content) Held(i int) (h Held) {
	_ = c.guard(func() error { // what is damaged is told, and made again
		h = c.held(i)
		return nil
	})
	return h
}

func (c *Content) held(i int) Held {
	d := c.sorted()[i]
	s := c.shelves[d.shelf]
	first, end := s.texts.first(d.document), s.texts.first(d.document+1)
	h := Held{Chunks: end - first, Bytes: int(s.weight(d.document))}
	h.ID, h.Name = s.labels(d.document)
	h.Attributes, _ = s.attributes(d.document)
	return h
}

// Generation returns the digest of what the content holds, in lower-case hex: the
// same documents have the same generation on every machine.
func (c *Content) Generation() string { return c.generation }

// Part tells whether this is what was read of a folder that was not, or is not yet,
// read to its end.
func (c *Content) Part() bool { return c.part }

// All returns every chunk, by document id, then by place in the document. Base
// and score are left empty. It ends before a text that is damaged.
func (c *Content) All() iter.Seq[retrieval.Source] {
	return func(yield func(retrieval.Source) bool) {
		for d := range inOrder(c.shelves) {
			texts := &c.shelves[d.shelf].texts
			for t := texts.first(d.document); t < texts.first(d.document+1); t++ {
				source, err := c.source(bm25.Ref{Segment: d.shelf, Text: t})
				if err != nil || !yield(source) {
					return
				}
			}
		}
	}
}

// source returns a chunk in the words of retrieval.
func (c *Content) source(ref bm25.Ref) (retrieval.Source, error) {
	shelf := c.shelves[ref.Segment].shelf
	texts := &shelf.texts
	d := texts.document(ref.Text)
	first, end := texts.first(d), texts.first(d+1)
	s := retrieval.Source{Type: "rag", Chunk: ref.Text - first, Section: string(texts.section(ref.Text))}
	s.Doc, s.Name = shelf.labels(d)
	var err error
	s.Before, s.Text, s.After, err = shelf.around(ref.Text, first, end)
	runtime.KeepAlive(c)
	c.tell(err)
	return s, err
}

// tokens returns what a counter counted of a chunk, 0 if it did not.
func (c *Content) tokens(ref bm25.Ref, by string) int {
	n := c.shelves[ref.Segment].texts.tokens(ref.Text, by)
	runtime.KeepAlive(c)
	return n
}

// A build makes a Content.
type build struct {
	folder Folder
	rules  attributeRules // of the folder
	deps   Deps

	cut [][]cutDocument // by number of the file

	mu       sync.Mutex // guards what follows
	progress Progress
	report   Report
}

// A cutDocument is a document with its chunks.
type cutDocument struct {
	document.Document
	attributes string // as document.EncodeAttributes gives them
	chunks     []chunk.Chunk
	sum        document.Sum
}

func newBuild(folder Folder, deps Deps, n int) *build {
	if deps.Neutralise == nil {
		deps.Neutralise = func(_, text string) string { return text }
	}
	return &build{folder: folder, deps: deps, cut: make([][]cutDocument, n), progress: Progress{Knowledge: folder.ID, Files: n}}
}

// run reads and cuts the documents side by side, then indexes them in order of id.
func (b *build) run(ctx context.Context, read func(ctx context.Context, i int) ([]document.Document, *Skip)) (*Content, Report, error) {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range b.cut {
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			documents, skip := read(gctx, i)
			chunks, bytes := 0, 0
			for _, d := range documents {
				cut, tooLarge := b.prepare(d)
				if tooLarge != nil {
					skip = tooLarge
					continue
				}
				chunks, bytes = chunks+len(cut.chunks), bytes+len(d.Text)
				b.cut[i] = append(b.cut[i], cut)
			}
			b.note(chunks, bytes, skip, len(documents) > 0 || skip == nil)
			return nil
		})
	}
	if err := cmp.Or(g.Wait(), ctx.Err()); err != nil {
		return nil, Report{}, fmt.Errorf("read knowledge %s: %w", b.folder.ID, err)
	}
	c, err := b.assemble(ctx)
	if err != nil {
		return nil, Report{}, fmt.Errorf("index knowledge %s: %w", b.folder.ID, err)
	}
	b.report.sort()
	b.report.Chunks, b.report.Written = c.Chunks(), c.Documents()
	return c, b.report, nil
}

// derive returns a document of a file with its attributes, and whether they are all
// that it should have.
func (b *build) derive(file string, d document.Document) (_ document.Document, whole bool) {
	d, notes := b.rules.apply(file, d)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.report.Notes = append(b.report.Notes, notes...)
	return d, len(notes) == 0
}

// prepare cuts one document, whose attributes are as they are kept; it is the zero
// one if it is skipped.
func (b *build) prepare(d document.Document) (cutDocument, *Skip) {
	sum := d.Digest()
	body, title := d.Text, ""
	if d.Markdown {
		title, body = frontMatter(body)
	}
	chunks, heading := chunk.Cut(b.deps.Neutralise(b.folder.ID, body), d, b.deps.Counter)
	for i := range chunks {
		chunks[i].Section = label(chunks[i].Section)
	}
	d.Name = label(cmp.Or(d.Name, title, heading, fileTitle(d)))
	d.Text = ""
	cut := cutDocument{Document: d, attributes: document.Encoded(d.Attributes), chunks: chunks, sum: sum}
	whole := cut.bound(0)
	if err := whole.checkSize(); err != nil {
		return cutDocument{}, &Skip{Path: d.ID, Kind: SkipTooLarge, Reason: err.Error()}
	}
	return cut, nil
}

// skip adds to the report.
func (b *build) skip(s Skip) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.report.Skipped = append(b.report.Skipped, s)
}

// note keeps the account of one file.
func (b *build) note(chunks, bytes int, skip *Skip, read bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if skip != nil {
		b.report.Skipped = append(b.report.Skipped, *skip)
	}
	if read {
		b.report.Files++
		b.report.Bytes += bytes
	}
	b.progress.Done++
	b.progress.Chunks += chunks
	if b.deps.Progress != nil {
		b.deps.Progress(b.progress)
	}
}

// assemble indexes what was cut.
func (b *build) assemble(ctx context.Context) (*Content, error) {
	all := slices.Concat(b.cut...)
	b.cut = nil
	// The file of a name comes before what else is called like it.
	slices.SortFunc(all, func(a, b cutDocument) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(min(len(a.Key), 1), min(len(b.Key), 1)), cmp.Compare(a.File, b.File))
	})
	var shelves []placed
	shelve := binder{emit: func(image []byte, _ []int64) error {
		s, err := openShelf("", image, nil)
		if err == nil {
			shelves = append(shelves, s.place(nil, nil))
		}
		return err
	}}
	var sum document.Sum
	for i, d := range all {
		if i > 0 && d.ID == all[i-1].ID {
			if d.File == "" {
				return nil, fmt.Errorf("document id %q comes twice", d.ID)
			}
			b.report.Skipped = append(b.report.Skipped, Skip{Path: d.ID, Kind: SkipDuplicate, Reason: reasonDuplicate})
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sum = sum.Add(d.sum)
		if err := shelve.add(d.bound(int64(i))); err != nil {
			return nil, err
		}
		all[i].chunks = nil // no longer needed here
	}
	if err := shelve.end(); err != nil {
		return nil, err
	}
	return newContent(ctx, shelves, generation(sum, b.deps.Version))
}

// bound returns the document as it goes into a shelf.
func (d *cutDocument) bound(row int64) bound {
	return bound{row: row, id: d.ID, name: d.Name, attributes: d.attributes, chunks: d.chunks}
}

// maxLabel bounds names and sections, in bytes.
const maxLabel = 200

// label makes one line fit for a list or a terminal out of a title.
func label(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.Is(unicode.C, r): // control characters, bidi marks, private use
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxLabel {
		s = strings.ToValidUTF8(s[:maxLabel-len("…")], "") + "…"
	}
	return s
}

// fileTitle names a document after its file.
func fileTitle(d document.Document) string {
	base := path.Base(cmp.Or(d.File, d.ID))
	if d.Form != extract.Code { // whose readers know it by all of its name
		base = strings.TrimSuffix(base, path.Ext(base))
	}
	return strings.TrimSpace(base + " " + d.Key)
}
