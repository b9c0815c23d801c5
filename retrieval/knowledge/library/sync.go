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
	// syncFiles and syncBytes limit the files that are read at a time.
	syncFiles = 256
	syncBytes = 32 << 20
	// settled is how old a file's time must be to identify its version: two versions written
	// within one tick of the file system's clock have the same time.
	settled = 2 * time.Second
)

// Sync makes a base hold what is in a folder, and creates the base if it does not exist. The base
// answers from its old content until the new one is complete; what was read is kept even if Sync
// fails half-way. Documents that Put wrote are left alone, unless a file has their id. A base is
// kept with one folder and one set of rules: while these are replaced by others, it answers as if
// it were not indexed yet.
//
// A file is not read again if its size, its times, the reader of its format and the folder's rules
// for attributes are the same as when it was read. This holds even if it was broken, too large or
// generated; the problem is then reported from the stored remark, also after restarts. Only a file
// that the system refuses to read is tried each time. A file that is read again with the same
// result changes nothing. If the system refuses to read a file or a folder, its documents stay,
// unless the rules have changed; documents of any other file that yields none any more, because it
// is gone, too large or no longer text, are removed. The report is that of knowledge.Load,
// whatever was read again.
//
// If too many files have disappeared since the last walk of the whole folder, which is a Sync or
// the first Update an hour after one, the base stays as it was, and the error is a *GoneError,
// until the files are back or AcceptDeletions is set.
func (l *Library) Sync(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error) {
	return l.sync(ctx, f, true, progress)
}

// Update is Sync for a folder in which something has probably changed.
func (l *Library) Update(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error) {
	return l.sync(ctx, f, false, progress)
}

// Look is folder.Look with the PDF reader of the library.
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

// syncSource runs Sync or Update with the files of source.
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

// A syncing is the state of one Sync.
type syncing struct {
	l       *Library
	b       *base
	source  *folder.Source
	folder  folder.Folder
	rules   folder.Rules
	account *folder.Account
	own     string // the origin of the folder
	anew    bool   // the base holds documents of another folder or read by other rules
	whole   bool   // see checkGone

	known   map[string][]store.Known // by source
	ids     map[string]store.Known   // all
	remarks map[string]store.Remark  // by source
	seen    map[string]bool          // ids of documents in the files
	names   map[string]bool          // names of the files
	sources []uint64                 // keys of the files that have documents
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

// keep keeps the documents of a file, unless they come from another folder or got their attributes
// by other rules: filters could let them pass by mistake.
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

// flush writes the last segment.
func (s *syncing) flush(ctx context.Context) error {
	done, err := s.l.takeSegment(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.writer.Flush()
}

// forget releases what is not needed once everything is written: refreshing the base needs the
// memory.
func (s *syncing) forget() {
	s.known, s.ids, s.remarks, s.seen, s.names, s.sources, s.writer = nil, nil, nil, nil, nil, nil, index.Writer{}
	s.l.reader.deps.Memory.Return()
}

// finish makes the base answer from the new state, and completes the report.
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
