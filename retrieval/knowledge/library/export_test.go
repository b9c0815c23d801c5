package library

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/store"
)

// OpenLoaded opens a library with all its bases.
func OpenLoaded(ctx context.Context, dir string, deps knowledge.Deps, o Options) (*Library, error) {
	l, err := Open(ctx, dir, deps, o)
	if err != nil {
		return nil, err
	}
	if err := l.Load(ctx, nil); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Quiet waits until the background work of a library has ended.
func (l *Library) Quiet() { l.background.Wait() }

// Before returns o with a function that is called before each change of the folder.
func Before(o Options, f func(step string)) Options {
	o.before = f
	return o
}

// SyncFS is Sync from a file system.
func (l *Library) SyncFS(ctx context.Context, fsys fs.FS, f folder.Folder) (folder.Report, error) {
	return l.syncSource(ctx, folder.FromFS(fsys), f, true, nil)
}

// Files returns the files of the segments that a base answers from.
func Files(b *knowledge.Base) (names []string) {
	for _, s := range b.Content().Segments() {
		names = append(names, s.Name)
	}
	return names
}

// Documents returns at most limit documents of a base, by id, starting after the given id; ""
// starts with the first.
func (l *Library) Documents(ctx context.Context, base, after string, limit int) (list []store.Entry, err error) {
	for k, err := range l.currentStore().Known(ctx, base) {
		if err != nil {
			return nil, err
		}
		if k.ID <= after || len(list) == limit {
			continue
		}
		e, err := l.Document(ctx, base, k.ID)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// ChangeReader simulates another version of a format's reader.
func (l *Library) ChangeReader(f extract.Format) {
	l.reader.readers = slices.Clone(l.reader.readers)
	l.reader.readers[f][0]++
}

// PutVectors stores vectors.
func (l *Library) PutVectors(ctx context.Context, space string, kept map[store.VectorKey][]byte) error {
	return store.VectorsOf(l.currentStore()).Put(ctx, space, kept, 0, time.Now())
}

// Written processes documents of a file like a Sync: it cuts, counts and indexes them.
func (l *Library) Written(documents []chunk.Document) error {
	var kept []store.Document
	for _, d := range documents {
		cut, err := l.reader.deps.Cut("kb", d)
		if err != nil {
			return err
		}
		kept = append(kept, l.reader.document(cut, l.reader.put()))
	}
	writer := index.Writer{Emit: func([]byte, []int64) error { return nil }}
	for i := range kept {
		if err := writer.Add(l.reader.indexed(&store.Entry{Row: int64(i), Document: kept[i]})); err != nil {
			return err
		}
	}
	return writer.Flush()
}

// Memory returns the library's estimate of the memory for documents of a file until they are
// written.
func Memory(documents []chunk.Document) (bytes int64) {
	e := new(estimate)
	for _, d := range documents {
		bytes = e.add(d)
	}
	return bytes
}

// LightFactor is the library's estimate of the memory for a small file per byte.
var LightFactor = lightFactor

// Compared returns how many pairs of documents of a base this process compared to find twins.
func (l *Library) Compared(id string) int { return l.base(id).verdicts.Compared }

// ForgetListing makes the next Sync of a base read from the store what the base has.
func (l *Library) ForgetListing(base string) { l.base(base).listing = nil }

// Listed reports whether the next Sync of a base can do without reading that.
func (l *Library) Listed(base string) bool { return l.base(base).listing != nil }
