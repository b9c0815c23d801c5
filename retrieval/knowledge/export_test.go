package knowledge

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"

	"sidenote/retrieval/knowledge/bm25"
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
		all = append(all, string(s.texts.id(d)), string(s.texts.name(d)))
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

// Bind returns the shelves of documents that are given as id, name and then section
// and text of each chunk.
func Bind(documents map[int64][]string) (images [][]byte, err error) {
	b := binder{emit: func(image []byte, _ []int64) error {
		images = append(images, image)
		return nil
	}}
	for row, parts := range documents {
		d := bound{row: row, id: parts[0], name: parts[1]}
		for i := 2; i < len(parts); i += 2 {
			d.chunks = append(d.chunks, piece{section: parts[i], text: parts[i+1]})
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
	at := func(i int) uint64 { return uint64(number(texts, i)) }
	c := textCounts{documents: at(2), sections: at(3), texts: at(4), strings: at(5), bodies: at(6)}
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
func (l *Library) SyncFS(ctx context.Context, fsys fs.FS, folder Folder) (Report, error) {
	return l.syncFS(ctx, fsys, "", folder, nil)
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
