package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/store"
)

// A syncFile is one file of a Sync.
type syncFile struct {
	name     string
	as       read
	size     int64
	modified time.Time // zero if the next version may have the same time
	changed  int64     // see folder.Source.Mark

	unchanged bool
	skip      *folder.Skip     // why all or part of it was not read
	notes     []folder.Note    // what was left out of its documents
	read      bool             // at least in part
	same      []store.Known    // documents that have not changed
	documents []store.Document // new or changed ones
	chunks    int
	bytes     int
}

// files reads the files in batches that fit into memory.
func (s *syncing) files(ctx context.Context, names []string) error {
	if s.l.reader.deps.Memory.Limited() {
		return s.filesWithin(ctx, names)
	}
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

// look determines whether a file must be read.
func (s *syncing) look(name string) *syncFile {
	f := &syncFile{name: name, as: read{reader: s.l.reader.readers[s.source.Format(name)], rules: s.rules.Name}}
	info, err := fs.Stat(s.source.FS, name)
	if err != nil {
		return f // reading it reports the error
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

// apart reports whether a file must be extracted in a child process.
func (s *syncing) apart(f *syncFile) bool {
	if f.unchanged {
		return false
	}
	format := s.source.Format(f.name)
	return format == extract.PDF || format == extract.DOCX || lightFactor(format)*f.size > s.l.reader.deps.Memory.Free()/2
}

// filesWithin is files with limited memory: small files in batches that surely fit, and each of
// the others by itself in a child process that may crash without harm.
func (s *syncing) filesWithin(ctx context.Context, names []string) error {
	var batch []*syncFile
	memory := int64(0)
	flush := func(last bool) error {
		err := s.light(ctx, batch, memory, last)
		batch, memory = nil, 0
		return err
	}
	for i, name := range names {
		f := s.look(name)
		if s.apart(f) {
			if err := flush(false); err != nil {
				return err
			}
			if err := s.large(ctx, f, i+1 == len(names)); err != nil {
				return err
			}
			continue
		}
		takes := int64(0)
		if !f.unchanged {
			takes = lightFactor(s.source.Format(name)) * f.size
		}
		if len(batch) == syncFiles || memory+takes > s.l.reader.deps.Memory.Free()/2 {
			if err := flush(false); err != nil {
				return err
			}
		}
		batch, memory = append(batch, f), memory+takes
	}
	return flush(true)
}

// light reads and writes a batch of files that together need the given memory in bytes.
func (s *syncing) light(ctx context.Context, batch []*syncFile, memory int64, last bool) error {
	if len(batch) == 0 {
		return nil
	}
	free := s.l.reader.deps.Memory
	grant, err := free.Take(ctx, memory+free.Segment(), memory+free.Segment())
	if errors.Is(err, folder.ErrNoRoom) {
		for _, f := range batch {
			if !f.unchanged {
				f.reject(err.Error())
			}
		}
		return s.write(ctx, batch, last)
	}
	if err != nil {
		return err
	}
	defer grant.Release()
	if err := s.read(ctx, batch); err != nil {
		return err
	}
	return s.write(ctx, batch, last)
}

// large reads one file in a child process and writes it. The process gets the free memory, less
// what is needed for the documents that it returns.
func (s *syncing) large(ctx context.Context, f *syncFile, last bool) error {
	free, apart := s.l.reader.deps.Memory, s.l.reader.deps.Apart
	if apart == nil {
		f.reject("no process can be started to read it in")
		return s.write(ctx, []*syncFile{f}, last)
	}
	grant, err := free.Take(ctx, rawMemory+leastMemory+leastText+free.Segment(), rawMemory+mostMemory+free.Segment())
	if errors.Is(err, folder.ErrNoRoom) {
		f.reject(err.Error())
		return s.write(ctx, []*syncFile{f}, last)
	}
	if err != nil {
		return err
	}
	defer grant.Release()
	documents, skip := s.source.ReadBy(ctx, f.name, s.l.reader.deps.PDF, func(ctx context.Context, format extract.Format, name string, raw []byte) ([]extract.Document, error) {
		text := max(leastText, (grant.Bytes-rawMemory)/4)
		if format == extract.PDF { // it takes much before there is any text
			text = leastText
		}
		memory := grant.Bytes - rawMemory - text
		grant.Outside(memory)
		defer grant.Outside(0)
		return apart.Extract(ctx, format, name, raw, memory, text)
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	f.read, f.skip = len(documents) > 0 || skip == nil, skip
	memory, most := new(estimate), grant.Bytes-free.Segment()
	for i, d := range documents {
		if memory.add(d) > most {
			f.reject(fmt.Sprintf("its text takes more than the %d MB of memory that are free", most>>20))
			break
		}
		f.bytes += len(d.Text)
		s.cut(f, d)
		documents[i] = chunk.Document{} // not needed any more
	}
	f.stamp()
	return s.write(ctx, []*syncFile{f}, last)
}

// reject skips a file for lack of memory. It is tried again each time.
func (f *syncFile) reject(reason string) {
	f.skip, f.read = folder.NoMemory(f.name, reason), false
	f.documents, f.same, f.notes, f.chunks, f.bytes = nil, nil, nil, 0, 0
	f.modified = time.Time{}
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
			documents, skip := s.source.ReadBy(gctx, f.name, s.l.reader.deps.PDF, s.extractor(f))
			f.read = len(documents) > 0 || skip == nil
			f.skip = skip
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

// extractor returns an Extractor that runs in this process. If memory is limited, it rejects a
// file that has grown since its memory was reserved.
func (s *syncing) extractor(f *syncFile) folder.Extractor {
	limited := s.l.reader.deps.Memory.Limited()
	return func(ctx context.Context, format extract.Format, name string, raw []byte) ([]extract.Document, error) {
		if limited && int64(len(raw)) > f.size {
			return nil, &folder.Failure{Kind: folder.SkipMemory, Reason: "it grew while it was to be read"}
		}
		return folder.Extract(ctx, format, name, raw, s.l.reader.deps.PDF)
	}
}

// unread reports whether the file was not read for a reason that may be temporary.
func (f *syncFile) unread() bool {
	return f.skip != nil && (f.skip.Kind == folder.SkipUnreadable || f.skip.Kind == folder.SkipMemory)
}

// stamp sets the size and times of a file's documents, by which the file is recognized as
// unchanged.
func (f *syncFile) stamp() {
	if f.unread() {
		f.modified = time.Time{} // so that it is tried each time
	}
	for i := range f.same {
		k := &f.same[i]
		k.Size, k.Modified, k.Mark = f.size, f.modified, f.changed
	}
	for i := range f.documents {
		d := &f.documents[i]
		d.Size, d.Modified, d.Mark = f.size, f.modified, f.changed
	}
}

// cut cuts a document of a file, unless the store has it already.
func (s *syncing) cut(f *syncFile, d chunk.Document) {
	if d.Key != "" && s.names[d.ID] { // of equal ids, that of a whole file wins
		s.account.Skip(folder.Duplicate(d.ID))
		f.modified = time.Time{} // as above: the other file may disappear
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

// write writes the documents of a batch; last means that no other batch follows.
func (s *syncing) write(ctx context.Context, batch []*syncFile, last bool) error {
	var documents []store.Document
	var touched []store.Known
	for _, f := range batch {
		switch {
		case f.unchanged:
			s.account.Report.Unchanged += len(s.known[f.name])
			s.keep(f.name)
		case f.unread() && len(f.documents)+len(f.same) == 0:
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
