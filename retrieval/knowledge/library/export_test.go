package library

import (
	"context"
	"errors"
	"io/fs"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
)

// OpenLoaded opens a library with all its bases.
func OpenLoaded(ctx context.Context, dir string, deps knowledge.Deps, o Options) (*Library, error) {
	l, err := Open(ctx, dir, deps, o)
	if err != nil {
		return nil, err
	}
	if err := l.Load(ctx, nil); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Quiet waits until nothing goes on in the background of a library.
func (l *Library) Quiet() { l.background.Wait() }

// Before returns o with a function that is told each change of the folder before it.
func Before(o Options, f func(step string)) Options {
	o.before = f
	return o
}

// SyncFS is Sync from a file system.
func (l *Library) SyncFS(ctx context.Context, fsys fs.FS, f folder.Folder) (folder.Report, error) {
	return l.syncSource(ctx, folder.FromFS(fsys), f, true, nil)
}

// Files returns the files of the segments that a base answers from.
func Files(b *knowledge.Base) (names []string) {
	for _, s := range b.Content().Segments() {
		names = append(names, s.Name)
	}
	return names
}
