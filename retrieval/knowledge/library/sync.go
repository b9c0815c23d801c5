package library

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/store"
)

const (
	// syncFiles and syncBytes limit the files that are read at a time.
	syncFiles = 256
	syncBytes = 8 << 20
	// settled is how old a file's time must be to identify its version: two versions written
	// within one tick of the file system's clock have the same time. Some count in steps of two seconds.
	settled     = 2 * time.Second
	settledFine = 100 * time.Millisecond // by a clock that is read ten times as often at least
	// touchDocuments is how many documents get other times in a transaction.
	touchDocuments = 32_768
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
// whatever was read again. A document that says the same as another one in another format is kept,
// but not searched while that one is there, see index.Segments.WithoutTwins.
//
// If too many files have disappeared since the last walk of the whole folder, which is a Sync or
// the first Update an hour after one, the base stays as it was, and the error is a *folder.GoneError,
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
			ids: map[string]store.Known{}, seen: map[string]bool{}, kept: map[string]bool{}, next: map[string]listed{},
		}
		s.writer.Emit, s.writer.Memory = b.putSegment(ctx), l.segmentMemory()
		if err := s.run(ctx, progress); err != nil {
			if gone := (*folder.GoneError)(nil); errors.As(err, &gone) {
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

	listed  map[string]listed       // what the base had, by source
	remarks map[string]store.Remark // by source
	seen    map[string]bool         // ids of documents in the files that were read
	kept    map[string]bool         // the sources whose documents stay as they are
	names   map[string]bool         // names of the files
	times   map[string]string       // see retrieval.FileTimes
	sources []uint64                // keys of the files that have documents
	touched []store.Known           // see touch
	next    map[string]listed       // what the base will have
	moved   bool                    // a document came from another file than before
	writer  index.Writer
	wrote   bool

	partly bool // ids has only documents of files that have changed, see hold
	mu     sync.Mutex
	ids    map[string]store.Known // what the base had; guarded by mu while files are read
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
	s.times = s.source.Times(files)
	if err := s.list(ctx, was); err != nil {
		return err
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
	looked, err := s.lookAll(ctx, files)
	if err != nil {
		return err
	}
	if err := s.files(ctx, looked); err != nil {
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
	if l := s.listed[file]; l.documents > 0 {
		s.kept[file], s.next[file] = true, l
		s.sources = append(s.sources, store.SourceKey(file))
	}
}

// keepBelow keeps the documents of a file or folder that cannot be read.
func (s *syncing) keepBelow(name string) {
	for file := range s.listed {
		if file == name || strings.HasPrefix(file, name+"/") {
			s.keep(file)
		}
	}
}

// removeRest removes the documents of files that are gone.
func (s *syncing) removeRest(ctx context.Context) error {
	var rest []string
	for id, k := range s.ids {
		if k.Source != "" && !s.seen[id] && !s.kept[k.Source] {
			rest = append(rest, id)
		}
	}
	slices.Sort(rest)
	for ids := range slices.Chunk(rest, putDocuments) {
		s.wrote, s.b.behind = true, true
		if err := s.b.remove(ctx, ids...); err != nil {
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
	s.listed, s.ids, s.remarks, s.seen, s.kept, s.names, s.times, s.sources, s.writer = nil, nil, nil, nil, nil, nil, nil, nil, index.Writer{}
	s.l.reader.deps.Memory.Return()
}

// finish makes the base answer from the new state, and completes the report.
func (s *syncing) finish(ctx context.Context) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	if err := s.l.currentStore().SetOrigin(ctx, s.b.ID(), s.own); err != nil {
		return err
	}
	if s.whole {
		if err := s.l.currentStore().SetWalk(ctx, s.b.ID(), store.Walk{At: time.Now(), Sources: s.sources}); err != nil {
			return err
		}
	}
	if s.wrote || s.b.behind || s.b.Content() == nil {
		s.forget()
		if err := s.b.settle(ctx); err != nil {
			return err
		}
	}
	if err := s.touch(ctx); err != nil {
		return err
	}
	base, err := s.l.Stored(ctx, s.b.ID())
	if err != nil {
		return err
	}
	s.keepListing(base)
	r := &s.account.Report
	r.Chunks, r.Bytes = base.Chunks, int(base.Bytes)
	if c := s.b.Content(); c != nil {
		twins := c.Segments().Twins()
		for _, t := range twins {
			r.Skipped = append(r.Skipped, folder.SameAs(t.Document, t.Same))
		}
		if len(twins) > 0 {
			r.Chunks, r.Bytes = c.Chunks(), int(c.Bytes())
		}
	}
	r.Sort()
	return nil
}

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
	written   int              // documents of both kinds that were written before, see inParts
	held      int              // documents that the base has of it
	chunks    int
	bytes     int
}

// files reads the files in batches that fit into memory.
func (s *syncing) files(ctx context.Context, files []*syncFile) error {
	if s.l.reader.deps.Memory.Limited() {
		return s.filesWithin(ctx, files)
	}
	var batch []*syncFile
	bytes := int64(0)
	flush := func(last bool) error {
		if err := s.read(ctx, batch); err != nil {
			return err
		}
		err := s.write(ctx, batch, last)
		batch, bytes = nil, 0
		return err
	}
	for i, f := range files {
		files[i] = nil
		if !f.unchanged && f.size > partBytes && s.source.Format(f.name).HoldsMany() {
			if err := flush(false); err != nil {
				return err
			}
			if err := s.inParts(ctx, f, s.extractor(f), 0, i+1 == len(files)); err != nil {
				return err
			}
			continue
		}
		if batch, bytes = append(batch, f), bytes+f.size; len(batch) == syncFiles || bytes >= syncBytes {
			if err := flush(i+1 == len(files)); err != nil {
				return err
			}
		}
	}
	return flush(true)
}

// lookAll looks at all files.
func (s *syncing) lookAll(ctx context.Context, names []string) ([]*syncFile, error) {
	files := make([]*syncFile, len(names))
	for i, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		files[i] = s.look(name)
	}
	return files, s.holdChanged(ctx, files)
}

// look determines whether a file must be read.
func (s *syncing) look(name string) *syncFile {
	f := &syncFile{name: name, as: read{reader: s.l.reader.readers[s.source.Format(name)], rules: s.rules.Name}}
	if s.times[name] != "" { // read again when it begins to matter or ceases to
		f.as.rules = s.rules.Timed()
	}
	f.as.rules = s.source.Rules(name, f.as.rules)
	v, err := s.source.Version(name)
	if err != nil {
		return f // reading it reports the error
	}
	f.size, f.modified, f.changed = v.Size, v.Modified, v.Mark
	if time.Since(f.modified) < settles(f.modified) {
		f.modified = time.Time{}
	}
	f.unchanged = !s.anew && !f.modified.IsZero() && s.asNoted(f) && s.listed[name].is(f)
	if f.unchanged {
		f.read = true
		f.recall(s.remarks[name])
	}
	return f
}

// settles returns how old a time of a file must be to identify its version.
func settles(modified time.Time) time.Duration {
	if coarse := modified.Nanosecond()%int(10*time.Millisecond) == 0; coarse {
		return settled
	}
	return settledFine
}

// apart reports whether a file must be extracted in a child process.
func (s *syncing) apart(f *syncFile) bool {
	if f.unchanged {
		return false
	}
	format := s.source.Format(f.name)
	return format.Packed() || lightFactor(format)*f.size > s.l.reader.deps.Memory.Free()/2
}

// filesWithin is files with limited memory: small files in batches that surely fit, and each of
// the others by itself in a child process that may crash without harm.
func (s *syncing) filesWithin(ctx context.Context, files []*syncFile) error {
	var batch []*syncFile
	memory := int64(0)
	flush := func(last bool) error {
		err := s.light(ctx, batch, memory, last)
		batch, memory = nil, 0
		return err
	}
	for i, f := range files {
		files[i] = nil
		if s.apart(f) {
			if err := flush(false); err != nil {
				return err
			}
			if err := s.large(ctx, f, i+1 == len(files)); err != nil {
				return err
			}
			continue
		}
		takes := int64(0)
		if !f.unchanged {
			takes = lightFactor(s.source.Format(f.name)) * f.size
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
	if errors.Is(err, folder.ErrNotEnoughMemory) {
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
	free, apart := s.l.reader.deps.Memory, s.l.reader.deps.ChildReader
	if apart == nil {
		f.reject("no process can be started to read it in")
		return s.write(ctx, []*syncFile{f}, last)
	}
	grant, err := free.Take(ctx, rawMemory+leastMemory+leastText+free.Segment(), rawMemory+mostMemory+free.Segment())
	if errors.Is(err, folder.ErrNotEnoughMemory) {
		f.reject(err.Error())
		return s.write(ctx, []*syncFile{f}, last)
	}
	if err != nil {
		return err
	}
	defer grant.Release()
	return s.inParts(ctx, f, inChild(apart, grant), grant.Bytes-free.Segment(), last)
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
	g.SetLimit(s.l.reader.deps.Parallel())
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
			if err := s.hold(gctx, documents); err != nil {
				return err
			}
			for _, d := range documents {
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
func (s *syncing) cut(f *syncFile, d chunk.Document) { s.take(f, s.cutOne(f, d)) }

// A syncDocument is a document of a file of a Sync: one of same and document is set, unless it was
// left out.
type syncDocument struct {
	same     *store.Known
	document *store.Document
	notes    []folder.Note
	bytes    int
	// Why it was left out.
	duplicate string
	skip      *folder.Skip
}

// cutOne cuts a document. It changes nothing, so it may be called concurrently.
func (s *syncing) cutOne(f *syncFile, d chunk.Document) syncDocument {
	if d.Key != "" && s.names[d.ID] { // of equal ids, that of a whole file wins
		return syncDocument{duplicate: d.ID}
	}
	out := syncDocument{bytes: len(d.Text)}
	d, out.notes = s.rules.Apply(f.name, d, s.times[f.name])
	hash := f.as.hash(d.Digest())
	known, ok := s.held(d.ID)
	copy(known.Hash[knowledge.ReaderBytes:], f.as.rules[:]) // other rules may give the same attributes
	if ok && known.Source == f.name && known.Hash == hash {
		out.same = &known
		return out
	}
	cut, err := s.l.reader.deps.Cut(s.b.ID(), d)
	if err != nil {
		out.skip = folder.TooLarge(d.ID, err)
		return out
	}
	document := s.l.reader.document(cut, f.as)
	document.Source = f.name
	out.document = &document
	return out
}

// take adds a document to its file.
func (s *syncing) take(f *syncFile, d syncDocument) {
	f.bytes += d.bytes
	f.notes = append(f.notes, d.notes...)
	switch {
	case d.duplicate != "":
		s.account.Skip(folder.Duplicate(d.duplicate))
		f.modified = time.Time{} // it is tried each time: the other file may disappear
	case d.skip != nil:
		f.skip = d.skip
	case d.same != nil:
		f.same = append(f.same, *d.same)
	default:
		f.documents = append(f.documents, *d.document)
		f.chunks += len(d.document.Chunks)
	}
}

// write writes the documents of a batch; last means that no other batch follows.
func (s *syncing) write(ctx context.Context, batch []*syncFile, last bool) error {
	var documents []store.Document
	var touched []store.Known
	for _, f := range batch {
		switch {
		case f.unchanged:
			s.account.Report.Unchanged += s.listed[f.name].documents
			s.keep(f.name)
		case f.unread() && len(f.documents)+len(f.same)+f.written == 0:
			s.keep(f.name)
		}
		documents, touched = s.collect(f, documents, touched)
		s.account.Note(f.notes...)
		s.account.File(f.chunks, f.bytes, f.skip, f.read)
		if f.held > 0 {
			s.next[f.name] = f.listed()
		}
	}
	if err := s.noteRemarks(ctx, batch); err != nil {
		return err
	}
	return s.put(ctx, documents, touched, last)
}

// collect appends the documents of a file to those that are written or touched.
func (s *syncing) collect(f *syncFile, documents []store.Document, touched []store.Known) ([]store.Document, []store.Known) {
	s.account.Report.Unchanged += len(f.same)
	f.held += len(f.same)
	for _, k := range f.same {
		s.seen[k.ID] = true
		if old := s.ids[k.ID]; differs(old, k) {
			touched = append(touched, k)
		}
	}
	for _, d := range f.documents {
		if s.taken(d.ID) {
			s.account.Skip(folder.Duplicate(d.ID))
			continue
		}
		s.seen[d.ID] = true
		old, known := s.held(d.ID)
		if !known {
			s.account.Report.Added++
		}
		s.moved = s.moved || known && old.Source != f.name
		documents = append(documents, d)
		f.held++
	}
	if f.held > 0 {
		s.sources = append(s.sources, store.SourceKey(f.name))
	}
	return documents, touched
}

// put writes documents, and the times of others.
func (s *syncing) put(ctx context.Context, documents []store.Document, touched []store.Known, last bool) error {
	if s.touched = append(s.touched, touched...); len(s.touched) >= touchDocuments {
		if err := s.touch(ctx); err != nil {
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
