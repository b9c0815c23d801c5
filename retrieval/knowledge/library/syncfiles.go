package library

import (
	"bytes"
	"context"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/store"
)

// A syncFile is one file of a Sync.
type syncFile struct {
	name     string
	as       read
	size     int64
	modified time.Time // zero where the next version may have the same time
	changed  int64     // see folder.Source.Mark

	unchanged bool
	skip      *folder.Skip     // why all of it, or a part, was not read
	notes     []folder.Note    // what was left out of its documents
	read      bool             // in part at least
	same      []store.Known    // documents that say the same as before
	documents []store.Document // others
	chunks    int
	bytes     int
}

// files reads the files in batches, each as large as may be in memory.
func (s *syncing) files(ctx context.Context, names []string) error {
	var batch []*syncFile
	bytes := int64(0)
	for i, name := range names {
		f := s.look(name)
		batch, bytes = append(batch, f), bytes+f.size
		if len(batch) < syncFiles && bytes < syncBytes && i+1 < len(names) {
			continue
		}
		if err := s.read(ctx, batch); err != nil {
			return err
		}
		if err := s.write(ctx, batch, i+1 == len(names)); err != nil {
			return err
		}
		batch, bytes = nil, 0
	}
	return nil
}

// look finds out whether a file has to be read.
func (s *syncing) look(name string) *syncFile {
	f := &syncFile{name: name, as: read{reader: s.l.reader.readers[s.source.Format(name)], rules: s.rules.Name}}
	info, err := fs.Stat(s.source.FS, name)
	if err != nil {
		return f // reading it says what is wrong
	}
	f.size, f.modified, f.changed = info.Size(), info.ModTime(), s.source.Mark(name, info)
	if time.Since(f.modified) < settled {
		f.modified = time.Time{}
	}
	f.unchanged = !s.anew && !f.modified.IsZero() && s.asNoted(f) && !slices.ContainsFunc(s.known[name], func(k store.Known) bool {
		return k.Size != f.size || !k.Modified.Equal(f.modified) || k.Mark != f.changed || !bytes.HasPrefix(k.Hash[:], f.as.prefix())
	})
	if f.unchanged {
		f.read = true
		f.recall(s.remarks[name])
	}
	return f
}

// read reads and cuts those files of a batch that have changed.
func (s *syncing) read(ctx context.Context, batch []*syncFile) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, f := range batch {
		if f.unchanged {
			continue
		}
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			documents, skip := s.source.Read(gctx, f.name, s.l.reader.deps.PDF)
			f.read = len(documents) > 0 || skip == nil
			if f.skip = skip; skip != nil && skip.Kind == folder.SkipUnreadable {
				f.modified = time.Time{} // so that it is tried each time
			}
			for _, d := range documents {
				f.bytes += len(d.Text)
				s.cut(f, d)
			}
			f.stamp()
			return nil
		})
	}
	return g.Wait()
}

// stamp gives the documents of a file the times by which it is known again.
func (f *syncFile) stamp() {
	for i := range f.same {
		k := &f.same[i]
		k.Size, k.Modified, k.Mark = f.size, f.modified, f.changed
	}
	for i := range f.documents {
		d := &f.documents[i]
		d.Size, d.Modified, d.Mark = f.size, f.modified, f.changed
	}
}

// cut cuts a document of a file, unless the store has it as it is.
func (s *syncing) cut(f *syncFile, d document.Document) {
	if d.Key != "" && s.names[d.ID] { // of equal ids, that of a whole file counts
		s.account.Skip(folder.Duplicate(d.ID))
		f.modified = time.Time{} // as above: the other file may go
		return
	}
	d, notes := s.rules.Apply(f.name, d)
	f.notes = append(f.notes, notes...)
	hash := f.as.hash(d.Digest())
	known, ok := s.ids[d.ID]
	copy(known.Hash[knowledge.ReaderBytes:], f.as.rules[:]) // other rules may give the same attributes
	if ok && known.Source == f.name && known.Hash == hash {
		f.same = append(f.same, known)
		return
	}
	cut, err := s.l.reader.deps.Cut(s.b.ID(), d)
	if err != nil {
		f.skip = folder.TooLarge(d.ID, err)
		return
	}
	document := s.l.reader.document(cut, f.as)
	document.Source = f.name
	f.documents = append(f.documents, document)
	f.chunks += len(document.Chunks)
}

// write writes what was read of a batch; last says that there is none after it.
func (s *syncing) write(ctx context.Context, batch []*syncFile, last bool) error {
	var documents []store.Document
	var touched []store.Known
	for _, f := range batch {
		switch {
		case f.unchanged:
			s.account.Report.Unchanged += len(s.known[f.name])
			s.keep(f.name)
		case f.skip != nil && f.skip.Kind == folder.SkipUnreadable && len(f.documents)+len(f.same) == 0:
			s.keep(f.name)
		}
		s.account.Report.Unchanged += len(f.same)
		for _, k := range f.same {
			s.seen[k.ID] = true
			s.sources = append(s.sources, store.SourceKey(f.name))
			if old := s.ids[k.ID]; old.Size != k.Size || !old.Modified.Equal(k.Modified) || old.Mark != k.Mark || old.Hash != k.Hash {
				touched = append(touched, k)
			}
		}
		for _, d := range f.documents {
			if s.seen[d.ID] {
				s.account.Skip(folder.Duplicate(d.ID))
				continue
			}
			s.seen[d.ID] = true
			if _, known := s.ids[d.ID]; !known {
				s.account.Report.Added++
			}
			documents = append(documents, d)
			s.sources = append(s.sources, store.SourceKey(f.name))
		}
		s.account.Note(f.notes...)
		s.account.File(f.chunks, f.bytes, f.skip, f.read)
	}
	if err := s.noteRemarks(ctx, batch); err != nil {
		return err
	}
	if len(touched) > 0 {
		if err := s.l.truth().Touch(ctx, s.b.ID(), touched); err != nil {
			return err
		}
	}
	parts := batches(documents)
	for _, part := range parts {
		if err := s.markPart(ctx, last && len(parts) == 1); err != nil {
			return err
		}
		s.wrote, s.b.behind = true, true
		s.account.Report.Written += len(part)
		if err := s.b.putBatch(ctx, part, &s.writer); err != nil {
			return err
		}
	}
	return nil
}
