package library

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"sidenote/retrieval/knowledge/store"
)

const (
	// manyGone is from how many files on it matters that they are most of a folder's.
	manyGone = 20
	// walkEvery is for how long an Update measures what is gone against one walk.
	walkEvery = time.Hour
)

// A GoneError says that a base was left as it was, because so many files of its folder
// are gone that they are out of reach, most likely, as where a volume is not mounted.
type GoneError struct {
	Knowledge string
	Path      string
	Gone      int
	Files     int // that documents came from since all of the folder was last looked at
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("knowledge %s: %d of %d files are gone from %s, as where a volume is not mounted", e.Knowledge, e.Gone, e.Files, e.Path)
}

// suspicious tells whether so much is gone that it is most likely out of reach.
func suspicious(gone, files int) bool {
	return gone == files && files >= 2 || 2*gone > files && gone >= manyGone
}

// compare returns a *GoneError if too many files are gone that documents came from when
// all of the folder was last looked at, or since.
//
// A file that is there, and yields nothing because a rule says so, is not gone, nor is
// it noted in last any longer: it may go later, and nobody minds.
func (s *syncing) compare(last *store.Walk) error {
	files, there := map[uint64]bool{}, map[uint64]bool{} // whether each is there; those that are
	for name := range s.names {
		there[store.SourceKey(name)] = true
	}
	for _, key := range last.Sources {
		files[key] = there[key]
	}
	for name := range s.known {
		if key := store.SourceKey(name); there[key] || vanished(s.source.FS, name) {
			files[key] = there[key]
		} else {
			delete(files, key)
		}
	}
	last.Sources = slices.DeleteFunc(last.Sources, func(key uint64) bool { _, noted := files[key]; return !noted })
	gone := 0
	for _, there := range files {
		if !there {
			gone++
		}
	}
	if suspicious(gone, len(files)) {
		return &GoneError{Knowledge: s.folder.ID, Path: s.folder.Path, Gone: gone, Files: len(files)}
	}
	return nil
}

// vanished tells whether a file, or a folder that it is in, is not there.
func vanished(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// checkGone refuses a folder that most of is gone from, unless that is to be taken for
// what it looks like; was is the folder that the base was kept with. It decides whether
// this is a look at all of the folder, that is, one to measure the next ones against.
func (s *syncing) checkGone(ctx context.Context, was string) error {
	last, err := s.l.truth().Walk(ctx, s.b.ID())
	if err != nil {
		return err
	}
	if s.folder.AcceptDeletions || placeOf(was) != placeOf(s.folder.Origin()) {
		s.whole = true
		return nil
	}
	s.whole = s.whole || time.Since(last.At) >= walkEvery
	before := len(last.Sources)
	if err := s.compare(&last); err != nil || s.whole || len(last.Sources) == before {
		return err
	}
	return s.l.truth().SetWalk(ctx, s.b.ID(), last)
}

// noteWalk notes the files that documents come from now.
func (s *syncing) noteWalk(ctx context.Context) error {
	if !s.whole {
		return nil
	}
	return s.l.truth().SetWalk(ctx, s.b.ID(), store.Walk{At: time.Now(), Sources: s.sources})
}
