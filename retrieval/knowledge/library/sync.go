package library

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/store"
)

const (
	// syncFiles and syncBytes bound the files that are read at a time.
	syncFiles = 256
	syncBytes = 32 << 20
	// settled is how old a file's time must be to identify its version: two versions that
	// are written within a tick of the file system's clock have the same time.
	settled = 2 * time.Second
)

// Sync makes a base hold what is in a folder, which is made where it is missing. The
// base answers from what it held until everything is in place; what was read stays
// even if Sync fails half-way. Documents that Put wrote are left alone, unless a file
// has their id. A base is kept with one folder and by one set of rules: while others
// take their place, it answers like one that is still to be indexed.
//
// A file is not read again if its size, its times, the reader of its format and the folder's
// rules for attributes are the same as when it was read, even if it was broken, too large or
// generated: what was wrong is reported from memory, over restarts too. Only a file that the
// system refuses to read is tried each time. A file that is read again and says the same
// changes nothing. The documents of a file that the system refuses to read stay, and so do those
// of files below such a folder, unless the rules have changed; the documents of every
// other file that yields none any more, because it is gone, too large or no longer text,
// are removed. The report is that of knowledge.Load, whatever was read again.
//
// Where too many files are gone since the last walk of the whole folder, which is a Sync or
// the first Update an hour after one, the base stays as it was, and the error is a
// *GoneError, until the files are back or AcceptDeletions is set.
func (l *Library) Sync(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error) {
	return l.sync(ctx, f, true, progress)
}

// Update is Sync for a folder in which something has changed, most likely.
func (l *Library) Update(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error) {
	return l.sync(ctx, f, false, progress)
}

// Look is folder.Look, by the library's means of reading.
func (l *Library) Look(ctx context.Context, f folder.Folder, enter func(dir string)) (digest uint64) {
	return folder.Look(ctx, f, l.reader.deps.PDF, enter)
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
		s.writer.Emit, s.writer.Memory = b.putSegment(ctx), l.segmentMemory()
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
	anew    bool   // what the base holds is from another folder, or was read by other rules
	whole   bool   // see checkGone

	known   map[string][]store.Known // by source
	ids     map[string]store.Known   // all
	remarks map[string]store.Remark  // likewise
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
	files, skipped, err := s.source.Files(ctx, s.folder, s.l.reader.deps.PDF)
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
	if err := s.readRemarks(ctx); err != nil {
		return err
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

// keep keeps the documents of a file, unless they come from another folder or have their
// attributes by other rules: filters would let them pass by mistake.
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
	return s.forgetRest(ctx)
}

// flush makes the last segment.
func (s *syncing) flush(ctx context.Context) error {
	done, err := s.l.takeSegment(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.writer.Flush()
}

// forget drops what is only of use until all is written: the segments, whose files are read
// next, need the memory.
func (s *syncing) forget() {
	s.known, s.ids, s.remarks, s.seen, s.names, s.sources, s.writer = nil, nil, nil, nil, nil, nil, index.Writer{}
	s.l.reader.deps.Room.Return()
}

// finish lets the base answer from what is there now, and completes the report.
func (s *syncing) finish(ctx context.Context) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	if err := s.l.truth().SetOrigin(ctx, s.b.ID(), s.own); err != nil {
		return err
	}
	if s.whole {
		if err := s.l.truth().SetWalk(ctx, s.b.ID(), store.Walk{At: time.Now(), Sources: s.sources}); err != nil {
			return err
		}
	}
	if s.wrote || s.b.behind || s.b.Content() == nil {
		s.forget()
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
