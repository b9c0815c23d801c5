package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/store"
)

const (
	// syncFiles and syncBytes bound the files that are read at a time.
	syncFiles = 256
	syncBytes = 32 << 20
	// settled is how old a file's time has to be to tell it from its next version:
	// what is written twice within a tick of the file system's clock has one time.
	settled = 2 * time.Second
)

// Sync makes a base hold what is in a folder, which is made where it is missing. The
// base answers from what it held until everything is in place; what was read stays
// even if Sync fails half-way. Documents that Put wrote are left alone, unless a file
// has their id. A base is kept with one folder and by one set of rules: while others
// take their place, it answers like one that is still to be indexed.
//
// A file is not read again if its size and times are those it was read with and the
// folder's rules for attributes are what they were. One that was read and says what it
// said before changes nothing. A file that is still there but that the system does not
// let us read keeps the documents it had, and so do the files below such a folder,
// unless the rules are others now; every other file that yields no documents any more,
// be it gone, too large or no longer text, takes them with it. The report is that of
// Load, whatever was read again.
//
// Where too many files are gone since all of the folder was last looked at, by a Sync
// or an Update that follows it by an hour, the base stays as it was, and the error is a
// *GoneError: it is so until they are back, or folder.AcceptDeletions.
func (l *Library) Sync(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error) {
	return l.sync(ctx, f, true, progress)
}

// Update is Sync for a folder in which something has changed, most likely.
func (l *Library) Update(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error) {
	return l.sync(ctx, f, false, progress)
}

func (l *Library) sync(ctx context.Context, f folder.Folder, whole bool, progress func(folder.Progress)) (folder.Report, error) {
	source, err := folder.Open(f)
	if err != nil {
		return folder.Report{}, fmt.Errorf("knowledge %s: %w", f.ID, err)
	}
	defer func() { _ = source.Close() }()
	return l.syncSource(ctx, source, f, whole, progress)
}

// syncSource is Sync or Update of what a source holds.
func (l *Library) syncSource(ctx context.Context, source *folder.Source, f folder.Folder, whole bool, progress func(folder.Progress)) (report folder.Report, err error) {
	rules, err := folder.NewRules(f)
	if err != nil {
		return folder.Report{}, fmt.Errorf("knowledge %s: %w", f.ID, err)
	}
	err = l.change(ctx, f.ID, func(b *base) error {
		s := &syncing{
			l: l, b: b, source: source, folder: f, rules: rules, whole: whole,
			known: map[string][]store.Known{}, ids: map[string]store.Known{}, seen: map[string]bool{},
		}
		s.writer.Emit = b.putSegment(ctx)
		if err := s.run(ctx, progress); err != nil {
			if gone := (*GoneError)(nil); errors.As(err, &gone) {
				return err
			}
			return fmt.Errorf("read knowledge %s: %w", f.ID, err)
		}
		report = s.account.Report
		return nil
	})
	return report, err
}

// A syncing is one Sync.
type syncing struct {
	l       *Library
	b       *base
	source  *folder.Source
	folder  folder.Folder
	rules   folder.Rules
	account *folder.Account
	own     string // the origin of the folder
	anew    bool   // what the base holds is of another folder, or was read by other rules
	whole   bool   // see checkGone

	known   map[string][]store.Known // by source
	ids     map[string]store.Known   // all
	seen    map[string]bool          // ids that the files have
	names   map[string]bool          // of the files
	sources []uint64                 // keys of the files that documents come from
	writer  index.Writer
	wrote   bool
}

func (s *syncing) run(ctx context.Context, progress func(folder.Progress)) error {
	was, err := s.begin(ctx)
	if err != nil {
		return err
	}
	files, skipped, err := s.source.Files(ctx, s.folder, s.l.reader.deps.Child)
	if err != nil {
		return err
	}
	s.account = folder.NewAccount(s.b.ID(), len(files), progress)
	s.account.Report.Skipped = skipped
	s.names = make(map[string]bool, len(files))
	for _, name := range files {
		s.names[name] = true
	}
	for k, err := range s.l.truth().Known(ctx, s.b.ID()) {
		if err != nil {
			return err
		}
		s.ids[k.ID] = k
		if k.Source != "" {
			s.known[k.Source] = append(s.known[k.Source], k)
		}
	}
	kept, _, _ := store.ReadOrigin(was.Origin)
	if err := s.checkGone(ctx, kept); err != nil {
		return err
	}
	if err := s.mark(ctx, was); err != nil {
		return err
	}
	for _, skip := range skipped {
		if skip.Kind == folder.SkipUnreadable {
			s.keepBelow(skip.Path)
		}
	}
	if err := s.files(ctx, files); err != nil {
		return err
	}
	if err := s.removeRest(ctx); err != nil {
		return err
	}
	return s.finish(ctx)
}

// A syncFile is one file of a Sync.
type syncFile struct {
	name     string
	size     int64
	modified time.Time // zero if it does not tell this version from the next
	changed  int64     // see folder.ChangeTime

	unchanged bool
	skip      *folder.Skip     // of all of it, or of what could not be read
	read      bool             // in part at least
	same      []store.Known    // documents that say what they said, to be touched
	documents []store.Document // others
	chunks    int
	bytes     int
}

// files goes through the files, as many side by side as may be in memory at a time.
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
	f := &syncFile{name: name}
	info, err := fs.Stat(s.source.FS, name)
	if err != nil {
		return f // reading it says what is wrong
	}
	f.size, f.modified, f.changed = info.Size(), info.ModTime(), folder.ChangeTime(info)
	if time.Since(f.modified) < settled {
		f.modified = time.Time{}
	}
	known := s.known[name]
	reader := slices.Concat(s.l.reader.name[:], s.rules.Name[:])
	f.unchanged = len(known) > 0 && !s.anew && !f.modified.IsZero() && !slices.ContainsFunc(known, func(k store.Known) bool {
		return k.Size != f.size || !k.Modified.Equal(f.modified) || k.Mark != f.changed || !bytes.HasPrefix(k.Hash[:], reader)
	})
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
			documents, skip := s.source.Read(gctx, f.name, s.l.reader.deps.Child)
			f.read = len(documents) > 0 || skip == nil
			if f.skip = skip; skip != nil {
				f.modified = time.Time{} // what is wrong with it is told each time
			}
			for _, d := range documents {
				f.bytes += len(d.Text)
				s.cut(f, d)
			}
			return nil
		})
	}
	return g.Wait()
}

// cut cuts a document of a file, unless the store has it as it is.
func (s *syncing) cut(f *syncFile, d document.Document) {
	if d.Key != "" && s.names[d.ID] { // the file of a name comes before what else is called like it
		s.account.Skip(folder.Duplicate(d.ID))
		return
	}
	d, notes := s.rules.Apply(f.name, d)
	if s.account.Note(notes...); len(notes) > 0 {
		f.modified = time.Time{} // as above
	}
	rules := s.rules.Name
	hash := s.l.reader.hash(rules, d.Digest())
	known, ok := s.ids[d.ID]
	copy(known.Hash[knowledge.ReaderBytes:], rules[:]) // other rules may come to the same
	if ok && known.Source == f.name && known.Hash == hash {
		known.Size, known.Modified, known.Mark = f.size, f.modified, f.changed
		f.same = append(f.same, known)
		return
	}
	cut, err := s.l.reader.deps.Cut(s.b.ID(), d)
	if err != nil {
		f.skip = folder.TooLarge(d.ID, err)
		return
	}
	document := s.l.reader.document(cut, rules)
	document.Source, document.Size, document.Modified, document.Mark = f.name, f.size, f.modified, f.changed
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
		s.account.File(f.chunks, f.bytes, f.skip, f.read || f.unchanged)
	}
	if len(touched) > 0 {
		if err := s.l.truth().Touch(ctx, s.b.ID(), touched); err != nil {
			return err
		}
	}
	parts := slices.Collect(batches(documents))
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

// keep keeps the documents of a file. Those of another folder, or with attributes by
// other rules, are not: a filter would choose them that must not.
func (s *syncing) keep(file string) {
	if s.anew {
		return
	}
	for _, k := range s.known[file] {
		s.seen[k.ID] = true
		s.sources = append(s.sources, store.SourceKey(file))
	}
}

// keepBelow keeps the documents of a file or folder that cannot be read.
func (s *syncing) keepBelow(name string) {
	for file := range s.known {
		if file == name || strings.HasPrefix(file, name+"/") {
			s.keep(file)
		}
	}
}

// removeRest removes the documents of files that are gone.
func (s *syncing) removeRest(ctx context.Context) error {
	var rest []string
	for id, k := range s.ids {
		if k.Source != "" && !s.seen[id] {
			rest = append(rest, id)
		}
	}
	slices.Sort(rest)
	for ids := range slices.Chunk(rest, putDocuments) {
		s.wrote, s.b.behind = true, true
		if err := s.l.truth().Delete(ctx, s.b.ID(), ids...); err != nil {
			return err
		}
	}
	s.account.Report.Removed, s.account.Report.Gone = len(rest), rest
	return nil
}

// finish lets the base answer from what is there now, and completes the report.
func (s *syncing) finish(ctx context.Context) error {
	if err := s.writer.Flush(); err != nil {
		return err
	}
	if err := s.l.truth().SetOrigin(ctx, s.b.ID(), s.own); err != nil {
		return err
	}
	if err := s.noteWalk(ctx); err != nil {
		return err
	}
	if s.wrote || s.b.behind || s.b.Content() == nil {
		if err := s.b.settle(ctx); err != nil {
			return err
		}
	}
	base, err := s.l.Stored(ctx, s.b.ID())
	if err != nil {
		return err
	}
	r := &s.account.Report
	r.Chunks, r.Bytes = base.Chunks, int(base.Bytes)
	r.Sort()
	return nil
}
