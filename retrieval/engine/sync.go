package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
)

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
	s.forgetGone()
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
		if s.isGone(name) {
			gone++
		}
	}
	if !s.folder.AcceptDeletions && folder.Suspicious(gone, len(s.of)) {
		return &folder.GoneError{Knowledge: s.Base, Path: s.folder.Place(), Remote: s.folder.Remote != "", Gone: gone, Files: len(s.of)}
	}
	return nil
}

func (s *syncing) isGone(name string) bool {
	_, err := fs.Stat(s.source.FS, name)
	return errors.Is(err, fs.ErrNotExist)
}

// forgetGone forgets files that are gone, so that they are read again if they come back as they were,
// and those that may not have been written because one that is gone says the same.
func (s *syncing) forgetGone() {
	twins := map[string]bool{}
	for file := range s.of {
		if twin, _, ok := index.TwinName(file); ok && !s.names[file] && s.isGone(file) {
			twins[twin] = true
		}
	}
	for name := range s.stamps {
		if twin, _, ok := index.TwinName(name); !s.names[name] || ok && twins[twin] {
			delete(s.stamps, name)
			delete(s.skips, name)
		}
	}
}

// keepBelow keeps the documents of a file or folder that cannot be read.
func (s *syncing) keepBelow(name string) {
	for file := range s.of {
		if file == name || strings.HasPrefix(file, name+"/") {
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
	v, err := s.source.Version(name)
	if err != nil || time.Since(v.Modified) < settled {
		return ""
	}
	reader, rules := s.readers[s.source.Format(name)], s.rules.Name
	if s.times[name] != "" {
		rules = s.rules.Timed()
	}
	rules = s.source.Rules(name, rules)
	return fmt.Sprintf("%d %d %d %x %x", v.Size, v.Modified.UnixNano(), v.Mark, reader, rules)
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
