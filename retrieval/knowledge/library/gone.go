package library

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"syscall"
	"time"

	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/store"
)

const (
	// walkEvery is for how long Updates compare with the file list of the same walk.
	walkEvery = time.Hour
)

// compare returns a *folder.GoneError if too many of the files are missing that had documents at the last
// walk of the whole folder or since.
//
// A file that exists but yields no documents because of a rule is not missing. It is removed from
// last: if it is deleted later, that does not count.
func (s *syncing) compare(last *store.Walk) error {
	files, there := map[uint64]bool{}, map[uint64]bool{} // files with documents; files that exist
	for name := range s.names {
		there[store.SourceKey(name)] = true
	}
	for _, key := range last.Sources {
		files[key] = true
	}
	for name := range s.listed {
		if key := store.SourceKey(name); there[key] || vanished(s.source.FS, name) {
			files[key] = true
		} else {
			delete(files, key)
		}
	}
	last.Sources = slices.DeleteFunc(last.Sources, func(key uint64) bool { return !files[key] })
	all := len(files)
	maps.DeleteFunc(files, func(key uint64, _ bool) bool { return there[key] })
	if gone := len(files); folder.Suspicious(gone, all) {
		return &folder.GoneError{Knowledge: s.folder.ID, Path: s.folder.Place(), Remote: s.folder.Remote != "", Gone: gone, Files: all}
	}
	return nil
}

// vanished reports whether a file or one of its parent folders does not exist.
func vanished(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// checkGone returns an error if most files of the folder are missing, unless AcceptDeletions is
// set or the base was kept with another folder (was) before. It also decides whether this counts
// as a walk of the whole folder, which later ones are compared with.
func (s *syncing) checkGone(ctx context.Context, was string) error {
	last, err := s.l.currentStore().Walk(ctx, s.b.ID())
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
	return s.l.currentStore().SetWalk(ctx, s.b.ID(), last)
}
