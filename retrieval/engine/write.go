package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/services"
)

const (
	// leaseTime is how long a writer may be silent before another one takes the base over.
	leaseTime = 30 * time.Second
	// graceTime is how long removed rows stay for searches that began before.
	graceTime = 2 * time.Minute
	// putChunks is about how many chunks are written in one transaction, and putFiles how many files
	// are read for it at most.
	putChunks = 1000
	putFiles  = 256
	// filesAtOnce is how many files are read at a time.
	filesAtOnce = 4
	// settled is how old a file's time must be to identify its version: two versions written within
	// one tick of the file system's clock have the same time.
	settled = 2 * time.Second
)

// Passages makes vectors of passages, see services.Embedder.
type Passages interface {
	Space() retrieval.Space
	Fit(passages []string) (n, tokens int)
	Passages(ctx context.Context, passages []string) (services.Passages, error)
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// WriterOptions configure a Writer. Server, Base and Owner are required.
type WriterOptions struct {
	Server   Server
	Base     string
	Owner    string         // who writes, for people: host and process
	Deps     knowledge.Deps // Counter is required
	Passages Passages       // nil: the base has no vectors
	// Spend, if not nil, is called before tokens are sent to be embedded; an error stops embedding
	// until the next Sync.
	Spend func(ctx context.Context, tokens int) error
}

// A Writer keeps a base in an engine the same as a folder. Several processes may have a Writer of
// one base: only the one that has the lease writes, and another takes over when it dies. A Writer is
// not safe for concurrent use.
type Writer struct {
	WriterOptions
	lease  Lease
	held   context.Context         // ends when the lease is lost; its cause is ErrLeaseLost
	drop   func()                  // ends the renewals
	stamps map[string]string       // of files that this process has read, by name
	skips  map[string]*folder.Skip // what of them was not read
	// Embedding reports the last Sync.
	Embedding Embedding
}

// An Embedding says how many chunks of a base have vectors.
type Embedding struct {
	Chunks, Had, Made, Refused int
	Tokens                     int   // sent
	Err                        error // why some have none; nil if all have one
}

// NewWriter returns a Writer.
func NewWriter(o WriterOptions) *Writer {
	return &Writer{WriterOptions: o, stamps: map[string]string{}, skips: map[string]*folder.Skip{}}
}

// Close gives the lease back.
func (w *Writer) Close(ctx context.Context) error {
	if w.lease == nil {
		return nil
	}
	w.drop()
	err := w.lease.Release(ctx)
	if w.lease = nil; errors.Is(err, ErrLeaseLost) {
		return nil
	}
	return err
}

// Sync makes the base hold what is in a folder. What is written becomes visible all at once when it
// is complete; if Sync fails half-way, the next one continues, whichever process it runs in. The
// error wraps ErrLeaseTaken if another process writes the base. The report is like that of a library,
// see package library. Documents that say the same as another one in another format are not written.
func (w *Writer) Sync(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (report folder.Report, err error) {
	s := &syncing{Writer: w, folder: f, progress: progress}
	if err := w.run(ctx, s.run); err != nil {
		return report, err
	}
	return s.account.Report, nil
}

// Fill makes the base hold exactly some documents, like Sync. An id that is empty or occurs twice is
// an error, and so is an attribute that chunk.Attribute rejects.
func (w *Writer) Fill(ctx context.Context, documents []chunk.Document) (folder.Report, error) {
	s := &syncing{Writer: w, all: true}
	if err := w.run(ctx, func(ctx context.Context) error { return s.fill(ctx, documents) }); err != nil {
		return folder.Report{}, err
	}
	return s.account.Report, nil
}

// run calls do while the Writer holds the lease.
func (w *Writer) run(ctx context.Context, do func(ctx context.Context) error) error {
	if err := w.hold(ctx); err != nil {
		return fmt.Errorf("knowledge %s: %w", w.Base, err)
	}
	w.Embedding = Embedding{}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.held, func() { cancel(context.Cause(w.held)) })()
	if err := do(ctx); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrLeaseLost) {
			err = cause
		}
		if errors.Is(err, ErrLeaseLost) {
			w.drop()
			w.lease = nil
		}
		if gone := (*folder.GoneError)(nil); errors.As(err, &gone) {
			return err
		}
		return fmt.Errorf("write knowledge %s: %w", w.Base, err)
	}
	return nil
}

// Update is Sync for a folder in which something has probably changed.
func (w *Writer) Update(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error) {
	return w.Sync(ctx, f, progress)
}

// Look is folder.Look with the PDF reader of the Writer.
func (w *Writer) Look(ctx context.Context, f folder.Folder, enter func(dir string)) (digest uint64) {
	return folder.Look(ctx, f, w.Deps.PDF, enter)
}

// hold acquires the lease, unless the Writer has it. It is renewed until Close, so that one process
// stays the writer as long as it lives.
func (w *Writer) hold(ctx context.Context) (err error) {
	if w.lease != nil {
		if err = w.lease.Renew(ctx); !errors.Is(err, ErrLeaseLost) {
			return err
		}
		w.drop()
		w.lease = nil
	}
	lease, err := w.Server.Acquire(ctx, w.Base, w.Owner, leaseTime)
	if err != nil {
		return err
	}
	held, cancel := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		renew(held, lease, cancel)
	}()
	w.lease, w.held, w.drop = lease, held, func() { cancel(nil); <-ended }
	clear(w.stamps) // another Writer may have deleted what this one had read
	return nil
}

// renew renews a lease until ctx ends, and cancels it if the lease is lost, or has ended because the
// engine does not answer.
func renew(ctx context.Context, lease Lease, cancel context.CancelCauseFunc) {
	again := time.NewTicker(leaseTime / 3)
	defer again.Stop()
	renewed := time.Now()
	for {
		select {
		case <-again.C:
			sent := time.Now()
			err := lease.Renew(ctx)
			switch {
			case err == nil:
				renewed = sent
			case errors.Is(err, ErrLeaseLost):
				cancel(err)
				return
			case time.Since(renewed) >= leaseTime:
				cancel(fmt.Errorf("%w: it was not renewed for %v: %w", ErrLeaseLost, leaseTime, err))
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// A syncing is the state of one Sync.
type syncing struct {
	*Writer
	folder   folder.Folder
	progress func(folder.Progress)
	source   *folder.Source
	rules    folder.Rules
	readers  knowledge.Readers
	account  *folder.Account
	times    map[string]string  // see folder.Source.Times
	names    map[string]bool    // of the files
	known    map[string]Known   // by id
	of       map[string][]Known // by file
	seen     map[string]bool    // ids of documents in the files
	sums     map[string][32]byte
	embedded map[string]int // chunks with a vector, by id
	chunks   map[string]int // by id
	all      bool           // documents that came from no file are replaced, too
	batch    []cutFile
	analyser analyser
	stopped  error // why nothing more is embedded

	space string // of the vectors that the base has, or gets
	mark  string // identifies the space more exactly; "" if there are none
}

// A cutFile is a file that was read.
type cutFile struct {
	name, stamp string
	skip        *folder.Skip
	notes       []folder.Note
	documents   []knowledge.Cut
	bytes       int
	twin        bool // its documents are in another file, too
}

func (s *syncing) run(ctx context.Context) error {
	source, err := folder.Open(s.folder)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	s.source = source
	if s.rules, err = folder.NewRules(s.folder); err != nil {
		return err
	}
	files, skipped, err := source.Files(ctx, s.folder, s.Deps.PDF)
	if err != nil {
		return err
	}
	s.readers, s.times = s.Deps.Readers(), source.Times(files)
	s.account = folder.NewAccount(s.Base, len(files), s.progress)
	s.account.Report.Skipped = skipped
	if err := s.recall(ctx, files); err != nil {
		return err
	}
	if err := s.checkGone(); err != nil {
		return err
	}
	for _, skip := range skipped {
		if skip.Kind == folder.SkipUnreadable {
			s.keepBelow(skip.Path)
		}
	}
	if err := s.read(ctx, files); err != nil {
		return err
	}
	if err := s.removeRest(ctx); err != nil {
		return err
	}
	return s.finish(ctx)
}

// fill writes documents that come from no file.
func (s *syncing) fill(ctx context.Context, documents []chunk.Document) error {
	s.readers, s.account = s.Deps.Readers(), folder.NewAccount(s.Base, len(documents), s.progress)
	if err := s.recall(ctx, nil); err != nil {
		return err
	}
	ids := map[string]bool{}
	for i, d := range documents {
		if d.ID == "" || ids[d.ID] {
			return fmt.Errorf("document %d has the id %q, which is empty or comes twice", i, d.ID)
		}
		ids[d.ID] = true
		d, err := d.Normal()
		if err != nil {
			return err
		}
		cut, err := s.Deps.Cut(s.Base, d)
		if err != nil {
			return fmt.Errorf("document %q: %w", d.ID, err)
		}
		if err := s.add(ctx, &cutFile{documents: []knowledge.Cut{cut}, bytes: len(d.Text)}); err != nil {
			return err
		}
	}
	if err := s.put(ctx); err != nil {
		return err
	}
	if err := s.removeRest(ctx); err != nil {
		return err
	}
	return s.finish(ctx)
}

// recall reads what the base has.
func (s *syncing) recall(ctx context.Context, files []string) error {
	s.known, s.of, s.seen = map[string]Known{}, map[string][]Known{}, map[string]bool{}
	s.sums, s.embedded, s.chunks, s.names = map[string][32]byte{}, map[string]int{}, map[string]int{}, map[string]bool{}
	for _, name := range files {
		s.names[name] = true
	}
	if err := s.findSpace(ctx); err != nil {
		return err
	}
	for k, err := range s.lease.Known(ctx) {
		if err != nil {
			return err
		}
		s.known[k.ID] = k
		if s.Passages == nil && k.Embedded > 0 {
			s.mark = markOf(k)
		}
		s.sums[k.ID], s.embedded[k.ID], s.chunks[k.ID] = k.Sum, k.Embedded, k.Chunks
		if k.Source != "" {
			s.of[k.Source] = append(s.of[k.Source], k)
		}
	}
	return nil
}

// findSpace sets space, and mark if the Writer embeds.
func (s *syncing) findSpace(ctx context.Context) error {
	if s.Passages != nil {
		space := s.Passages.Space()
		sum := sha256.Sum256(chunk.Fields(space.String(), space.Input))
		s.space, s.mark = space.String(), hex.EncodeToString(sum[:8])
		return nil
	}
	states, err := s.Server.States(ctx, []string{s.Base})
	if err != nil {
		return err
	}
	s.space = states[0].Space
	return nil
}

// stored returns what is stored as the stamp of a document: that of its file, after the mark of the
// space of its vectors.
func (s *syncing) stored(stamp string) string { return s.mark + "|" + stamp }

func markOf(k Known) string {
	mark, _, _ := strings.Cut(k.Stamp, "|")
	return mark
}

// whole reports whether a document has all vectors that it gets from this Writer.
func (s *syncing) whole(k Known) bool {
	return s.Passages == nil || k.Embedded == k.Chunks && markOf(k) == s.mark
}

// checkGone refuses to go on if most files are gone.
func (s *syncing) checkGone() error {
	gone := 0
	for name := range s.of {
		if _, err := fs.Stat(s.source.FS, name); errors.Is(err, fs.ErrNotExist) {
			gone++
		}
	}
	if !s.folder.AcceptDeletions && folder.Suspicious(gone, len(s.of)) {
		return &folder.GoneError{Knowledge: s.Base, Path: s.folder.Path, Gone: gone, Files: len(s.of)}
	}
	return nil
}

// keepBelow keeps the documents of a file or folder that cannot be read.
func (s *syncing) keepBelow(name string) {
	for file := range s.of {
		if file == name || len(file) > len(name) && file[:len(name)] == name && file[len(name)] == '/' {
			s.keep(file)
		}
	}
}

// keep keeps the documents of a file as they are.
func (s *syncing) keep(file string) (documents, chunks int) {
	for _, k := range s.of[file] {
		s.seen[k.ID] = true
		documents, chunks = documents+1, chunks+k.Chunks
	}
	return documents, chunks
}

// stamp identifies the version of a file and of its reader; "" if the next version may have the same.
func (s *syncing) stamp(name string) string {
	info, err := fs.Stat(s.source.FS, name)
	if err != nil || time.Since(info.ModTime()) < settled {
		return ""
	}
	reader, rules := s.readers[s.source.Format(name)], s.rules.Name
	if s.times[name] != "" {
		rules = s.rules.Timed()
	}
	return fmt.Sprintf("%d %d %d %x %x", info.Size(), info.ModTime().UnixNano(), s.source.Mark(name, info), reader, rules)
}

// unchanged reports whether a file has the version that was read before: by this process, or by the
// one that wrote its documents.
func (s *syncing) unchanged(name, stamp string) bool {
	if stamp == "" || slices.ContainsFunc(s.of[name], func(k Known) bool { return !s.whole(k) }) {
		return false
	}
	if s.stamps[name] == stamp {
		return true
	}
	return len(s.of[name]) > 0 && !slices.ContainsFunc(s.of[name], func(k Known) bool {
		_, was, _ := strings.Cut(k.Stamp, "|")
		return was != stamp
	})
}

// read reads the files that have changed, and writes their documents.
func (s *syncing) read(ctx context.Context, files []string) error {
	files, groups := twinFiles(files)
	for _, group := range groups {
		if err := s.readTwins(ctx, group); err != nil {
			return err
		}
	}
	var changed []cutFile
	flush := func() error {
		defer func() { changed = nil }()
		return s.readAll(ctx, changed)
	}
	for _, name := range files {
		stamp := s.stamp(name)
		if s.unchanged(name, stamp) {
			_, chunks := s.keep(name)
			s.account.File(chunks, 0, s.skips[name], true)
			s.account.Report.Unchanged += len(s.of[name])
			s.stamps[name] = stamp
			continue
		}
		if changed = append(changed, cutFile{name: name, stamp: stamp}); len(changed) == putFiles {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return s.put(ctx)
}

// twinFiles divides files into those without twins, and groups of files that may say the same in
// several formats.
func twinFiles(files []string) (alone []string, groups [][]string) {
	named, formats := map[string][]string{}, map[string]map[int]bool{}
	for _, file := range files {
		name, format, ok := index.TwinName(file)
		if !ok {
			continue
		}
		if named[name] = append(named[name], file); formats[name] == nil {
			formats[name] = map[int]bool{}
		}
		formats[name][format] = true
	}
	for _, file := range files {
		name, _, ok := index.TwinName(file)
		switch {
		case !ok || len(formats[name]) < 2:
			alone = append(alone, file)
		case named[name][0] == file:
			groups = append(groups, named[name])
		}
	}
	return alone, groups
}

// readTwins reads a group of files that may be twins, unless none has changed. Documents that another
// one of them contains are not written. As the engine does not have them, only the process that read
// them knows that they have not changed.
func (s *syncing) readTwins(ctx context.Context, group []string) error {
	files, same := make([]cutFile, len(group)), true
	for i, name := range group {
		files[i] = cutFile{name: name, stamp: s.stamp(name)}
		same = same && s.unchanged(name, files[i].stamp)
	}
	if same {
		for _, f := range files {
			documents, chunks := s.keep(f.name)
			s.account.File(chunks, 0, s.skips[f.name], true)
			s.account.Report.Unchanged += documents
		}
		return nil
	}
	if err := s.cutAll(ctx, files); err != nil {
		return err
	}
	var all []knowledge.Cut
	for i := range files {
		all = append(all, files[i].documents...)
	}
	twins, err := knowledge.Twins(all)
	if err != nil {
		return err
	}
	for _, t := range twins {
		for i := range files {
			f := &files[i]
			before := len(f.documents)
			f.documents = slices.DeleteFunc(f.documents, func(c knowledge.Cut) bool { return c.ID == t.Document })
			if len(f.documents) < before {
				f.skip, f.twin = new(folder.SameAs(t.Document, t.Same)), true
			}
		}
	}
	for i := range files {
		if err := s.add(ctx, &files[i]); err != nil {
			return err
		}
	}
	return nil
}

// cutAll reads and cuts files in parallel.
func (s *syncing) cutAll(ctx context.Context, files []cutFile) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(filesAtOnce)
	for i := range files {
		g.Go(func() error {
			s.cut(gctx, &files[i])
			return gctx.Err()
		})
	}
	return g.Wait()
}

// readAll reads files, and puts their documents in order.
func (s *syncing) readAll(ctx context.Context, files []cutFile) error {
	for part := range slices.Chunk(files, 4*filesAtOnce) {
		if err := s.cutAll(ctx, part); err != nil {
			return err
		}
		for i := range part {
			if err := s.add(ctx, &part[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut reads a file and cuts its documents.
func (s *syncing) cut(ctx context.Context, f *cutFile) {
	documents, skip := s.source.Read(ctx, f.name, s.Deps.PDF)
	f.skip = skip
	for _, d := range documents {
		if d.Key != "" && s.names[d.ID] { // of equal ids, that of a whole file wins
			f.skip, f.stamp = new(folder.Duplicate(d.ID)), ""
			continue
		}
		f.bytes += len(d.Text)
		d, notes := s.rules.Apply(f.name, d, s.times[f.name])
		f.notes = append(f.notes, notes...)
		cut, err := s.Deps.Cut(s.Base, d)
		if err != nil {
			f.skip = folder.TooLarge(d.ID, err)
			continue
		}
		f.documents = append(f.documents, cut)
	}
}

// add takes the documents of a file that was read.
func (s *syncing) add(ctx context.Context, f *cutFile) error {
	if f.skip != nil && (f.skip.Kind == folder.SkipUnreadable || f.skip.Kind == folder.SkipMemory) {
		s.keep(f.name)
		f.stamp = ""
	}
	chunks := 0
	for i := range f.documents {
		chunks += len(f.documents[i].Chunks)
	}
	s.account.Note(f.notes...)
	s.account.File(chunks, f.bytes, f.skip, f.twin || len(f.documents) > 0 || f.skip == nil)
	if f.name == "" {
		return s.enqueue(ctx, f)
	}
	delete(s.stamps, f.name)
	if s.skips[f.name] = f.skip; f.stamp != "" {
		s.stamps[f.name] = f.stamp
	}
	if f.skip != nil {
		f.stamp = "" // another process reads it again, to know why
	}
	return s.enqueue(ctx, f)
}

// enqueue adds the documents of a file to the batch, and writes it when it is full.
func (s *syncing) enqueue(ctx context.Context, f *cutFile) error {
	s.batch = append(s.batch, *f)
	waiting := 0
	for i := range s.batch {
		for j := range s.batch[i].documents {
			waiting += len(s.batch[i].documents[j].Chunks)
		}
	}
	if waiting < putChunks && len(s.batch) < putFiles {
		return nil
	}
	return s.put(ctx)
}

// put writes the new and changed documents of the batch.
func (s *syncing) put(ctx context.Context) error {
	var documents []Document
	for i := range s.batch {
		f := &s.batch[i]
		for j := range f.documents {
			cut := &f.documents[j]
			if s.seen[cut.ID] && s.known[cut.ID].Source != f.name {
				s.account.Skip(folder.Duplicate(cut.ID))
				continue
			}
			s.seen[cut.ID] = true
			d, changed, err := s.document(f, cut)
			if err != nil {
				return err
			}
			if changed {
				documents = append(documents, d)
			}
		}
	}
	s.batch = nil
	if len(documents) == 0 {
		return nil
	}
	if err := s.embed(ctx, documents); err != nil {
		return err
	}
	if err := s.lease.Put(ctx, documents, nil); err != nil {
		return err
	}
	s.note(documents)
	return nil
}

// document returns a document for the engine, and whether it has changed.
func (s *syncing) document(f *cutFile, cut *knowledge.Cut) (Document, bool, error) {
	was, known := s.known[cut.ID]
	if known && was.Sum == cut.Sum && s.whole(was) && was.Source == f.name {
		s.account.Report.Unchanged++
		return Document{}, false, nil
	}
	d := Document{ID: cut.ID, Name: cut.Name, Source: f.name, Stamp: s.stored(f.stamp), Sum: cut.Sum, Attributes: chunk.Encoded(cut.Attributes)}
	s.count(cut.Chunks)
	if err := s.analyser.document(&d, cut.Chunks); err != nil {
		return d, false, err
	}
	if !known {
		s.account.Report.Added++
	}
	s.account.Report.Written++
	return d, true, nil
}

// count counts the tokens of chunks.
func (s *syncing) count(chunks []chunk.Chunk) {
	for i := range chunks {
		c := &chunks[i]
		for _, encoding := range slices.Sorted(maps.Keys(s.Deps.Encodings)) {
			if n, exact := s.Deps.Encodings[encoding].Count(c.Text); exact {
				c.Counts = append(c.Counts, chunk.Count{Counter: chunk.CounterName(s.Deps.Version, encoding), Tokens: n})
			}
		}
	}
}

// note records documents that were written.
func (s *syncing) note(documents []Document) {
	for i := range documents {
		d := &documents[i]
		embedded := 0
		for j := range d.Chunks {
			if d.Chunks[j].Vector != nil {
				embedded++
			}
		}
		s.sums[d.ID], s.embedded[d.ID], s.chunks[d.ID] = d.Sum, embedded, len(d.Chunks)
	}
}

// removeRest deletes the documents of files that are gone, or yield them no more.
func (s *syncing) removeRest(ctx context.Context) error {
	var rest []string
	for id, k := range s.known {
		if (k.Source != "" || s.all) && !s.seen[id] {
			rest = append(rest, id)
		}
	}
	slices.Sort(rest)
	for ids := range slices.Chunk(rest, putFiles) {
		if err := s.lease.Put(ctx, nil, ids); err != nil {
			return err
		}
		for _, id := range ids {
			delete(s.sums, id)
			delete(s.embedded, id)
			delete(s.chunks, id)
		}
	}
	s.account.Report.Removed, s.account.Report.Gone = len(rest), rest
	return nil
}

// generation returns the generation of all documents, and the space of their vectors. The same
// documents, all embedded, have the same generation whoever writes them.
func (s *syncing) generation() (generation, space string) {
	var sum chunk.Sum
	embedded, chunks := 0, 0
	parts := []string{"sidenote engine", rankVersion}
	for id, own := range s.sums {
		sum = sum.Add(own)
		embedded, chunks = embedded+s.embedded[id], chunks+s.chunks[id]
	}
	if embedded > 0 {
		space = s.space
		parts = append(parts, space, s.mark)
		if embedded < chunks { // which of them have a vector differs
			for _, id := range slices.Sorted(maps.Keys(s.embedded)) {
				parts = append(parts, id, fmt.Sprint(s.embedded[id]))
			}
		}
	}
	return knowledge.Generation(sum, s.Deps.Version+" "+string(chunk.Fields(parts...))), space
}

// finish makes what was written visible, measures it, and removes what is not visible any more.
func (s *syncing) finish(ctx context.Context) error {
	generation, space := s.generation()
	states, err := s.Server.States(ctx, []string{s.Base})
	if err != nil {
		return err
	}
	if states[0].Generation != generation {
		if err := s.lease.Commit(ctx, generation, space); err != nil {
			return err
		}
		if states, err = s.Server.States(ctx, []string{s.Base}); err != nil {
			return err
		}
	}
	s.report(&states[0])
	if err := s.measure(ctx, states[0]); err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	for more := true; more; {
		if more, err = s.lease.Clean(ctx, graceTime); err != nil {
			return err
		}
	}
	return nil
}

// report completes the report.
func (s *syncing) report(state *State) {
	r := &s.account.Report
	r.Chunks, r.Bytes = state.Chunks, int(state.Bytes)
	r.Sort()
	s.Embedding.Chunks = state.Chunks
	s.Embedding.Had = max(0, state.Embedded-s.Embedding.Made)
	if s.Passages == nil {
		s.Embedding = Embedding{}
	}
	s.Embedding.Err = cmp.Or(s.stopped, s.Embedding.Err)
}

// embed sets the vectors of chunks: those that the engine has already, and new ones. If the service
// fails, the documents are written without them, and the next Sync tries again.
func (s *syncing) embed(ctx context.Context, documents []Document) error {
	if s.Passages == nil {
		return nil
	}
	space := s.Passages.Space()
	want, passages, keys := map[string][]*Chunk{}, map[string]string{}, [][]byte(nil)
	for i := range documents {
		d := &documents[i]
		for j := range d.Chunks {
			c := &d.Chunks[j]
			passage := index.PassageOf(d.ID, d.Name, c.Section, c.Text)
			key := space.Key(passage)
			if want[string(key[:])] == nil {
				keys, passages[string(key[:])] = append(keys, key[:]), passage
			}
			want[string(key[:])] = append(want[string(key[:])], c)
		}
	}
	vectors, err := s.lease.Vectors(ctx, keys)
	if err != nil {
		return err
	}
	set := func(key string, v []float32) {
		for _, c := range want[key] {
			c.Vector, c.VectorKey = v, []byte(key)
		}
		delete(passages, key)
	}
	for key, v := range vectors {
		if want[key] != nil {
			set(key, v)
		}
	}
	if err := s.makeVectors(ctx, passages, set); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.stopped = err
	}
	return nil
}

// makeVectors embeds passages, by key, and passes their vectors to set.
func (s *syncing) makeVectors(ctx context.Context, passages map[string]string, set func(key string, v []float32)) error {
	if s.stopped != nil {
		return s.stopped
	}
	keys := slices.Sorted(maps.Keys(passages))
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = passages[key]
	}
	for len(texts) > 0 {
		n, tokens := s.Passages.Fit(texts)
		if n = max(1, n); s.Spend != nil {
			if err := s.Spend(ctx, tokens); err != nil {
				return err
			}
		}
		made, err := s.Passages.Passages(ctx, texts[:n])
		s.Embedding.Tokens += made.Tokens
		if err != nil {
			return err
		}
		for i, v := range made.Vectors {
			if v == nil {
				s.Embedding.Refused++
				s.Embedding.Err = made.Why
				continue
			}
			u, err := unit(v)
			if err != nil {
				return err
			}
			set(keys[i], u)
			s.Embedding.Made++
		}
		keys, texts = keys[n:], texts[n:]
	}
	return nil
}
