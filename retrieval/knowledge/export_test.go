package knowledge

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"slices"

	"sidenote/retrieval/knowledge/bm25"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/mapped"
)

// A Shelf is a shelf as tests see it.
type Shelf struct{ *shelf }

// OpenShelf opens an image.
func OpenShelf(name string, image []byte) (Shelf, error) {
	s, err := openShelf(name, image, nil)
	return Shelf{s}, err
}

// OpenShelfFile opens a file.
func OpenShelfFile(name string) (Shelf, error) {
	f, err := mapped.Open(name)
	if err != nil {
		return Shelf{}, err
	}
	s, err := openShelf(name, f.Bytes(), f)
	return Shelf{s}, err
}

// ReadAll reads everything on the shelf.
func (s Shelf) ReadAll() (all []string, err error) {
	for d := range s.texts.documents {
		attributes, err := s.attributes(d)
		if err != nil {
			return nil, err
		}
		all = append(all, string(s.texts.id(d)), string(s.texts.name(d)), document.Encoded(attributes))
		for t := s.texts.first(d); t < s.texts.first(d+1); t++ {
			_, text, _, err := s.around(t, s.texts.first(d), s.texts.first(d+1))
			if err != nil {
				return nil, err
			}
			all = append(all, string(s.texts.section(t)), text)
		}
	}
	return all, nil
}

// Rows returns the rows of the documents.
func (s Shelf) Rows() []int64 { return s.rows() }

// Bind returns the shelves of documents that are given as id, name, attributes and
// then section and text of each chunk.
func Bind(documents map[int64][]string) (images [][]byte, err error) { return BindWithin(0, documents) }

// BindWithin is Bind where the terms of a shelf may take so many bytes.
func BindWithin(limit int, documents map[int64][]string) (images [][]byte, err error) {
	b := binder{emit: func(image []byte, _ []int64) error {
		images = append(images, image)
		return nil
	}, postings: bm25.Builder{Limit: limit}}
	for row, parts := range documents {
		d := bound{row: row, id: parts[0], name: parts[1], attributes: parts[2]}
		for i := 3; i < len(parts); i += 2 {
			d.chunks = append(d.chunks, chunk.Chunk{Section: parts[i], Text: parts[i+1]})
		}
		if err := b.add(d); err != nil {
			return nil, err
		}
	}
	return images, b.end()
}

// Seal puts the right sums into the image of a shelf that was changed, but not into
// its postings, as far as the headers lead.
func Seal(image []byte) {
	if len(image) < shelfHeader+textsHeader {
		return
	}
	binary.LittleEndian.PutUint32(image[12:], headerChecksum(image))
	texts := image[shelfHeader:]
	c := countsOf(texts)
	if c.bytes() <= uint64(len(texts)) {
		binary.LittleEndian.PutUint32(texts[tableSum:], crc32.Checksum(texts[textsHeader:textsHeader+c.table()], crc32c()))
	}
	binary.LittleEndian.PutUint32(texts[headerSum:], crc32.Checksum(texts[:headerSum], crc32c()))
}

// Merge merges shelves without the documents in the given rows.
func Merge(gone map[int64]bool, shelves ...Shelf) (Shelf, []int64, error) {
	var sources []placed
	for _, s := range shelves {
		var dead bm25.Bitmap
		for d := range s.texts.documents {
			if gone[s.texts.row(d)] {
				dead.Add(d)
			}
		}
		sources = append(sources, s.place(dead, nil))
	}
	image, rows, err := mergeShelves(sources)
	if err != nil {
		return Shelf{}, nil, err
	}
	merged, err := OpenShelf("merged", image)
	return merged, rows, err
}

// LoadLibrary opens a library with all its bases.
func LoadLibrary(ctx context.Context, dir string, deps Deps, o LibraryOptions) (*Library, error) {
	l, err := OpenLibrary(ctx, dir, deps, o)
	if err != nil {
		return nil, err
	}
	if err := l.Load(ctx, nil); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Quiet waits until nothing goes on in the background of a library.
func (l *Library) Quiet() { l.background.Wait() }

// Before returns o with a function that is told each change of the folder before it.
func Before(o LibraryOptions, f func(step string)) LibraryOptions {
	o.before = f
	return o
}

// SyncFS is Sync from a file system.
func (l *Library) SyncFS(ctx context.Context, fsys fs.FS, f folder.Folder) (folder.Report, error) {
	return l.syncSource(ctx, folder.FromFS(fsys), f, true, nil)
}

// Files returns the files of the shelves that a base answers from.
func (b *Base) Files() (names []string) {
	for _, s := range b.Content().shelves {
		names = append(names, s.name)
	}
	return names
}

// The figures of merging.
const (
	MergeAt = mergeAt
)

// KeptFilters returns for how many filters a content keeps what they allow.
func (c *Content) KeptFilters() int {
	c.filters.mu.Lock()
	defer c.filters.mu.Unlock()
	return len(c.filters.kept)
}

// MostFilters is how many are kept at most.
const MostFilters = keptFilters

// Shelve returns the content of groups of documents, each group on shelves of its
// own. Of documents with one id that of the last group stays.
func Shelve(ctx context.Context, deps Deps, groups ...[]document.Document) (*Content, error) {
	var shelves []placed
	later := map[string]bool{}
	for _, group := range slices.Backward(groups) {
		bind := binder{emit: func(image []byte, _ []int64) error {
			s, err := openShelf("", image, nil)
			if err != nil {
				return err
			}
			var gone bm25.Bitmap
			for d := range s.texts.documents {
				if later[string(s.texts.id(d))] {
					gone.Add(d)
				}
			}
			shelves = append(shelves, s.place(gone, nil))
			return nil
		}}
		group, err := checkDocuments(group)
		if err != nil {
			return nil, err
		}
		for _, d := range group {
			ready, err := deps.Cut("", d)
			if err != nil {
				return nil, err
			}
			if err := bind.add(ready.bound(0)); err != nil {
				return nil, err
			}
		}
		if err := bind.end(); err != nil {
			return nil, err
		}
		for _, d := range group {
			later[d.ID] = true
		}
	}
	return newContent(ctx, shelves, "00")
}
