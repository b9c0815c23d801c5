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
)

// A Content is the documents of a base, cut and indexed. It never changes.
type Content struct {
	documents  []document // by id
	chunks     []chunk    // by document, in order: that of the texts of index
	segments   []int      // of the index: the number of each one's first chunk
	index      *bm25.Index
	generation string
	floor      floor
}

type document struct {
	id, name string
	first    int // of its chunks
}

type chunk struct {
	document int
	section  string
	text     string
}

// Documents returns how many documents there are.
func (c *Content) Documents() int { return len(c.documents) }

// Chunks returns how many chunks they were cut into.
func (c *Content) Chunks() int { return len(c.chunks) }

// A Held is what a Content holds of one document.
type Held struct {
	ID, Name string
	Chunks   int
	Bytes    int // of their texts
}

// Held returns the i-th document by id, 0 <= i < Documents.
func (c *Content) Held(i int) Held {
	d, end := c.documents[i], len(c.chunks)
	if i+1 < len(c.documents) {
		end = c.documents[i+1].first
	}
	h := Held{ID: d.id, Name: d.name, Chunks: end - d.first}
	for _, ch := range c.chunks[d.first:end] {
		h.Bytes += len(ch.text)
	}
	return h
}

// Generation returns the digest of what the content holds, in lower-case hex: the
// same documents have the same generation on every machine.
func (c *Content) Generation() string { return c.generation }

// All returns every chunk, by document id, then by place in the document. Base
// and score are left empty.
func (c *Content) All() iter.Seq[retrieval.Source] {
	return func(yield func(retrieval.Source) bool) {
		for i := range c.chunks {
			if !yield(c.source(i)) {
				return
			}
		}
	}
}

// found returns the chunk that a search found.
func (c *Content) found(hit bm25.Hit) int { return c.segments[hit.Segment] + hit.Text }

// source returns a chunk in the words of retrieval.
func (c *Content) source(i int) retrieval.Source {
	ch := c.chunks[i]
	d := c.documents[ch.document]
	s := retrieval.Source{
		Type:    "rag",
		Doc:     d.id,
		Chunk:   i - d.first,
		Name:    d.name,
		Section: ch.section,
		Text:    ch.text,
	}
	if i > d.first {
		s.Before = c.chunks[i-1].text
	}
	if i+1 < len(c.chunks) && c.chunks[i+1].document == ch.document {
		s.After = c.chunks[i+1].text
	}
	return s
}

// A build makes a Content.
type build struct {
	folder Folder
	deps   Deps

	cut []cutDocument // by number

	mu       sync.Mutex // guards what follows
	progress Progress
	report   Report
}

// A cutDocument is a document with its chunks; the zero one was skipped.
type cutDocument struct {
	Document
	chunks []piece
	sum    [32]byte
}

func newBuild(folder Folder, deps Deps, n int) *build {
	if deps.Neutralise == nil {
		deps.Neutralise = func(s string) string { return s }
	}
	return &build{folder: folder, deps: deps, cut: make([]cutDocument, n), progress: Progress{Knowledge: folder.ID, Files: n}}
}

// run reads and cuts the documents side by side, then indexes them in order of id.
func (b *build) run(ctx context.Context, read func(i int) (Document, *Skip)) (*Content, Report, error) {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range b.cut {
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			d, skip := read(i)
			if skip == nil {
				b.cut[i] = b.prepare(d)
			}
			b.note(len(b.cut[i].chunks), len(d.Text), skip)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, Report{}, fmt.Errorf("read knowledge %s: %w", b.folder.ID, err)
	}
	slices.SortFunc(b.report.Skipped, func(a, b Skip) int { return cmp.Compare(a.Path, b.Path) })
	c, err := b.assemble(ctx)
	if err != nil {
		return nil, Report{}, fmt.Errorf("index knowledge %s: %w", b.folder.ID, err)
	}
	b.report.Chunks = len(c.chunks)
	return c, b.report, nil
}

// prepare cuts one document.
func (b *build) prepare(d Document) cutDocument {
	sum := d.digest()
	body, title := d.Text, ""
	if d.Markdown {
		title, body = frontMatter(body)
	}
	chunks, heading := cutText(b.deps.Neutralise(body), d.Markdown, b.deps.Counter)
	d.Name = label(cmp.Or(d.Name, title, heading, fileTitle(d.ID)))
	d.Text = ""
	return cutDocument{Document: d, chunks: chunks, sum: sum}
}

// note keeps the account of one document.
func (b *build) note(chunks, bytes int, skip *Skip) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if skip != nil {
		b.report.Skipped = append(b.report.Skipped, *skip)
	} else {
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
	b.cut = slices.DeleteFunc(b.cut, func(d cutDocument) bool { return d.ID == "" })
	slices.SortFunc(b.cut, func(a, b cutDocument) int { return cmp.Compare(a.ID, b.ID) })
	c := &Content{}
	var sum digest
	var index indexer
	for i, d := range b.cut {
		if i > 0 && d.ID == c.documents[i-1].id {
			return nil, fmt.Errorf("document id %q comes twice", d.ID)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sum.add(d.sum)
		c.documents = append(c.documents, document{id: d.ID, name: d.Name, first: len(c.chunks)})
		for _, p := range d.chunks {
			ch := chunk{document: i, section: label(p.section), text: p.text}
			if err := index.add(d.Name, ch); err != nil {
				return nil, err
			}
			c.chunks = append(c.chunks, ch)
		}
		b.cut[i] = cutDocument{} // its pieces are no longer needed
	}
	if err := index.end(); err != nil {
		return nil, err
	}
	c.segments, c.index = index.firsts, bm25.NewIndex(index.segments, nil)
	c.generation = sum.generation(b.deps.Version)
	var err error
	c.floor, err = calibrate(ctx, c.index)
	return c, err
}

// An indexer puts chunks, in order, into as few segments as hold them.
type indexer struct {
	builder  bm25.Builder
	segments []*bm25.Live
	firsts   []int // chunks before each segment
	chunks   int
}

func (x *indexer) add(name string, ch chunk) error {
	if x.builder.Full() {
		if err := x.end(); err != nil {
			return err
		}
	}
	// Twice: a term of the title should weigh more than one of the text.
	x.builder.Add(name, name, ch.section, ch.text)
	x.chunks++
	return nil
}

// end makes a segment of the chunks added since the last.
func (x *indexer) end() error {
	texts := x.builder.Len()
	if texts == 0 {
		return nil
	}
	image, err := x.builder.Build()
	if err != nil {
		return err
	}
	segment, err := bm25.Open(image)
	if err != nil {
		return err
	}
	x.segments = append(x.segments, segment.Live(nil))
	x.firsts = append(x.firsts, x.chunks-texts)
	return nil
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
func fileTitle(id string) string {
	base := path.Base(id)
	return strings.TrimSuffix(base, path.Ext(base))
}
