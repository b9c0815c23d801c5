package index

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index/bm25"
)

// Limits for the text of one segment; titles count as often as they are indexed.
const (
	// fullBytes is when a segment is emitted: 16 MB are some 15,000 chunks of prose, and making it
	// takes a hundred MB. A bm25.Builder is rarely full before.
	fullBytes = 16 << 20
	// maxBytes limits a segment of a single document.
	maxBytes = 64 << 20
)

// A Document is the input of a Writer.
type Document struct {
	Row        int64 // row in the store
	ID, Name   string
	Attributes string // encoded by chunk.EncodeAttributes
	Chunks     []chunk.Chunk
}

// weight returns how much text of the document is indexed.
func (d *Document) weight() int {
	n := 0
	for _, p := range d.Chunks {
		n += 2*len(d.Name) + len(p.Section) + len(p.Text)
	}
	return n
}

// errDocumentSize means that a document does not fit into one segment.
var errDocumentSize = errors.New("too large for the index")

// CheckSize returns an error if a document does not fit into a segment. Documents are not split
// between segments, because the neighbours of a text are read from its segment.
func (d *Document) CheckSize() error {
	if w := d.weight(); len(d.Chunks) > bm25.MaxTexts || w > maxBytes {
		return fmt.Errorf("%d chunks of %d MB: %w", len(d.Chunks), w>>20, errDocumentSize)
	}
	return nil
}

// A Writer makes segments of documents. The zero Writer with Emit is ready for use.
type Writer struct {
	// Emit receives each completed segment: its image and the rows of its documents.
	Emit func(image []byte, rows []int64) error
	// Memory limits the memory for making a segment, in bytes; 0 is no limit. A document that
	// needs more gets a segment of its own.
	Memory int64

	documents []Document
	weight    int
	texts     int
	words     Words        // used if Memory limits a segment
	ofWords   int64        // memory that the words take
	postings  bm25.Builder // keeps its vocabulary
	sketcher  retrieval.Sketcher
	sketches  []byte // of the texts in postings
}

// Add adds a document. If the segment would become too large, it first emits the documents added
// before.
func (w *Writer) Add(d Document) error {
	if err := d.CheckSize(); err != nil {
		return fmt.Errorf("document %q: %w", d.ID, err)
	}
	weight := d.weight()
	if w.weight+weight > fullBytes || w.texts+len(d.Chunks) > bm25.MaxTexts || w.Memory > 0 && w.memory(&d) > w.Memory {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	w.documents = append(w.documents, d)
	w.weight += weight
	w.texts += len(d.Chunks)
	return nil
}

// memory returns an upper bound for making a segment of the documents added and d.
func (w *Writer) memory(d *Document) int64 {
	w.ofWords += w.words.Add(d.Name)
	for _, p := range d.Chunks {
		w.ofWords += w.words.Add(p.Section) + w.words.Add(p.Text)
	}
	return segmentMemory(w.weight+d.weight(), w.texts+len(d.Chunks)) + w.ofWords
}

// Flush emits the documents added since the last segment, if any; as several segments if their
// words are too many for one.
func (w *Writer) Flush() error {
	slices.SortFunc(w.documents, func(x, y Document) int { return cmp.Compare(x.ID, y.ID) })
	for rest := w.documents; len(rest) > 0; {
		n, err := w.segment(rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	clear(w.documents)
	w.documents, w.weight, w.texts = w.documents[:0], 0, 0
	if w.Memory > 0 { // the vocabulary is not limited
		w.documents, w.postings, w.sketches, w.words, w.ofWords = nil, bm25.Builder{}, nil, Words{}, 0
	}
	return nil
}

// segment emits a segment of as many documents as fit, and returns their number. A document that
// does not fit into an empty one is an error that names it.
func (w *Writer) segment(documents []Document) (n int, err error) {
	d := draft{values: valuesDraft{}}
	var rows []int64
	for _, doc := range documents {
		err := w.index(&doc)
		if n > 0 && errors.Is(err, bm25.ErrFull) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("document %q: %w", doc.ID, err)
		}
		rows = append(rows, doc.Row)
		first := len(d.texts)
		d.document(doc.Row, doc.ID, doc.Name, doc.Attributes)
		for i, p := range doc.Chunks {
			d.text(p.Section, p.Text, p.Counts, sketchAt(w.sketches, first+i))
		}
		n++
	}
	postings, err := w.postings.Build()
	defer func() { w.sketches = w.sketches[:0] }()
	if err != nil {
		return 0, err
	}
	if err := d.values.decode(d.sets.list); err != nil {
		return 0, err
	}
	image, err := d.segment(postings)
	if err != nil {
		return 0, err
	}
	return n, w.Emit(image, rows)
}

// index adds the chunks of a document to the postings, all or none.
func (w *Writer) index(d *Document) error {
	before := w.postings.Len()
	for _, p := range d.Chunks {
		// Twice: terms of the title weigh more than those of the text.
		if _, err := w.postings.Add(d.Name, d.Name, p.Section, p.Text); err != nil {
			w.postings.Truncate(before)
			w.sketches = w.sketches[:before*retrieval.SketchBytes]
			return err
		}
		for term := range w.postings.LastPart() { // terms of the text
			w.sketcher.Add(term)
		}
		w.sketches = w.sketcher.Append(w.sketches)
	}
	return nil
}
