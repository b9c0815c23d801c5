package knowledge

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"sidenote/retrieval/knowledge/bm25"
	"sidenote/retrieval/knowledge/chunk"
)

// shelfBytes is how much text, titles counted as often as they are indexed, is
// bound into one shelf: 64 MB are some 50,000 chunks, and what making a shelf of
// them takes is bounded with it. Hardly ever is a bm25.Builder full before.
const shelfBytes = 64 << 20

// A bound is a document that goes into a shelf.
type bound struct {
	row        int64 // in the store
	id, name   string
	attributes string // as document.EncodeAttributes gives them
	chunks     []chunk.Chunk
}

// weight is how much text of the document is indexed.
func (d *bound) weight() int {
	n := 0
	for _, p := range d.chunks {
		n += 2*len(d.name) + len(p.Section) + len(p.Text)
	}
	return n
}

// errDocumentSize is for a document that does not fit on one shelf.
var errDocumentSize = errors.New("too large for the index")

// checkSize refuses a document that does not fit on a shelf. Documents are not
// divided between shelves: neighbours are found where a text was.
func (d *bound) checkSize() error {
	if w := d.weight(); len(d.chunks) > bm25.MaxTexts || w > shelfBytes {
		return fmt.Errorf("%d chunks of %d MB: %w", len(d.chunks), w>>20, errDocumentSize)
	}
	return nil
}

// A binder makes shelves of documents as they come, each different ones. The zero
// binder with emit is ready.
type binder struct {
	emit func(image []byte, rows []int64) error

	documents []bound
	weight    int
	texts     int
	postings  bm25.Builder // keeps what it learned of the words
}

// add takes one document, after emitting those before where they fill a shelf.
func (b *binder) add(d bound) error {
	if err := d.checkSize(); err != nil {
		return fmt.Errorf("document %q: %w", d.id, err)
	}
	w := d.weight()
	if b.weight+w > shelfBytes || b.texts+len(d.chunks) > bm25.MaxTexts {
		if err := b.end(); err != nil {
			return err
		}
	}
	b.documents = append(b.documents, d)
	b.weight += w
	b.texts += len(d.chunks)
	return nil
}

// end emits a shelf of the documents that were added since the last, if any: several
// where the index takes no more of their words on one.
func (b *binder) end() error {
	slices.SortFunc(b.documents, func(x, y bound) int { return cmp.Compare(x.id, y.id) })
	for rest := b.documents; len(rest) > 0; {
		n, err := b.shelf(rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	clear(b.documents)
	b.documents, b.weight, b.texts = b.documents[:0], 0, 0
	return nil
}

// shelf emits one of the first documents, as many as it takes, and returns how many
// they are. A document that no shelf takes is an error that names it.
func (b *binder) shelf(documents []bound) (n int, err error) {
	var draft textsDraft
	var rows []int64
	for _, d := range documents {
		err := b.index(&d)
		if n > 0 && errors.Is(err, bm25.ErrFull) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("document %q: %w", d.id, err)
		}
		rows = append(rows, d.row)
		draft.document(d.row, d.id, d.name, d.attributes)
		for _, p := range d.chunks {
			draft.text(p.Section, p.Text, p.Counts)
		}
		n++
	}
	postings, err := b.postings.Build()
	if err != nil {
		return 0, err
	}
	image, err := draft.shelf(postings)
	if err != nil {
		return 0, err
	}
	return n, b.emit(image, rows)
}

// index adds the chunks of a document to the postings, all of them or none.
func (b *binder) index(d *bound) error {
	before := b.postings.Len()
	for _, p := range d.chunks {
		// Twice: a term of the title should weigh more than one of the text.
		if _, err := b.postings.Add(d.name, d.name, p.Section, p.Text); err != nil {
			b.postings.Truncate(before)
			return err
		}
	}
	return nil
}

// mergeShelves returns the image of a shelf of the documents that are left on some,
// and their rows. No text is analysed again.
func mergeShelves(sources []placed) (image []byte, rows []int64, err error) {
	defer runtime.KeepAlive(sources)
	live := make([]*bm25.Live, len(sources))
	for i, s := range sources {
		live[i] = s.live
	}
	postings, from, err := bm25.Merge(live, compare(sources))
	if err != nil {
		return nil, nil, err
	}
	var draft textsDraft
	for ref := range inOrder(sources) {
		s := sources[ref.shelf]
		rows = append(rows, s.texts.row(ref.document))
		set := string(s.texts.set(number(s.texts.setOf, ref.document)))
		draft.document(s.texts.row(ref.document), string(s.texts.id(ref.document)), string(s.texts.name(ref.document)), set)
		for t := s.texts.first(ref.document); t < s.texts.first(ref.document+1); t++ {
			body := s.texts.body(t)
			if !s.texts.whole(t) {
				return nil, nil, &shelfError{shelf: s.shelf, err: fmt.Errorf("text %d: %w", t, errShelf)}
			}
			if n := len(draft.texts); n >= len(from) || from[n] != (bm25.Ref{Segment: ref.shelf, Text: t}) {
				return nil, nil, errors.New("BUG: texts and postings are merged in different orders")
			}
			// Not copied: sources outlive the draft.
			draft.text(string(s.texts.section(t)), unsafe.String(unsafe.SliceData(body), len(body)), s.texts.countsOf(t))
		}
	}
	image, err = draft.shelf(postings)
	return image, rows, err
}

// A shelfError says which shelf is damaged.
type shelfError struct {
	shelf *shelf
	err   error
}

func (e *shelfError) Error() string {
	return fmt.Sprintf("read %s: %v", cmp.Or(e.shelf.name, "shelf"), e.err)
}

func (e *shelfError) Unwrap() error { return e.err }

// A documentRef is a document: the number of its shelf in a list, and its number there.
type documentRef struct{ shelf, document int }
