// Package store keeps knowledge bases on disk and is authoritative for them: bases, their
// documents with attributes and hashes, and the documents' chunks, in one SQLite database per
// state folder. Beside it are segments, which are index files made of the chunks; losing them
// costs only time.
//
// One process writes a folder; any number of others may read it meanwhile and see each transaction
// completely or not at all. If a process dies, the folder is as after its last transaction. After
// a power failure the last transactions may be missing, but never a part of one: commits are
// synced at checkpoints, not individually.
//
// The package knows nothing of analysis, file formats or rankings. A folder contains
//
//	knowledge.db  -wal  -shm   SQLite's; kept in WAL mode
//	segments/                  opaque images with checksums
//	lock                       held by the writer, which identifies itself in it
//	admin-token                made by the first writer, see AdminToken
//
// The folder and its contents are accessible to the owner only, so followers run as the same user.
// Followers that may not write it, as on a read-only mount, need -wal and -shm to exist: a writer
// leaves them when it closes.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// Memory is the folder name of a store in memory, which ends with its process.
	Memory = ":memory:"

	databaseName = "knowledge.db"
	codeName     = "code"
	segmentsName = "segments"
	// Only the owner may read and write, because the documents may be confidential. SQLite gives
	// -wal and -shm the mode of the database.
	folderMode = 0o700
	fileMode   = 0o600
)

// CodeFolder returns the folder, in a state folder, for machine code that a program can make
// again; "" if there is no folder.
func CodeFolder(dir string) string {
	if dir == "" || dir == Memory {
		return ""
	}
	return filepath.Join(dir, codeName)
}

// Options are the options of Open.
type Options struct {
	// Address is where this process accepts work from other processes, such as its admin port.
	// Processes that want to write the folder are given it.
	Address string

	// Before, if not nil, is called before each step that changes the folder: tests stop the
	// process there.
	Before func(step string)

	// Notice, if not nil, is called with problems that were found and repaired.
	Notice func(error)

	steps []string // of the schema; nil for schema()
}

// A Store is an open state folder. It is safe for concurrent use; writes are serialized.
type Store struct{ reads }

// reads are the methods of a Store that change nothing.
type reads struct{ *database }

// A database is the files of an open state folder.
type database struct {
	dir, path string
	file      fs.FileInfo // the database file when it was opened; nil in memory
	step      func(string)
	writer    *sql.DB // one connection; nil in a follower
	readers   *sql.DB // in memory the same as writer
	images    images
	lock      *os.File // nil in a follower and in memory
	listings  listings

	// Prepared statements.
	version  *sql.Stmt            // versionQuery on readers
	prepared map[string]*sql.Stmt // on writer, by text
}

// Open opens the folder for writing, and creates it if necessary. Segment files that the database
// does not refer to are removed.
//
// Its errors include *LockedError if another process writes the folder, *ForeignError and
// *SchemaError for a database that must not be written, *CorruptError for a damaged one, and
// ErrFull.
func Open(ctx context.Context, dir string, o Options) (_ *Store, err error) {
	if o.steps == nil {
		o.steps = schema()
	}
	if o.Before == nil {
		o.Before = func(string) {}
	}
	if dir == Memory {
		return openMemory(ctx, o)
	}
	s, err := newStore(dir, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if err := os.MkdirAll(filepath.Join(s.dir, segmentsName), folderMode); err != nil {
		return nil, fmt.Errorf("open state folder: %w", full(err))
	}
	tighten(s.dir)
	if s.lock, err = acquire(s.dir, o.Address); err != nil {
		return nil, err
	}
	if err := s.create(ctx, o.steps); err != nil {
		return nil, fmt.Errorf("make %s: %w", s.path, err)
	}
	// Read first: a database that must not be written is not opened for writing.
	have, err := s.openReaders(ctx)
	if err != nil {
		return nil, err
	}
	if have > len(o.steps) {
		return nil, &SchemaError{Path: s.path, Have: have, Know: len(o.steps)}
	}
	if err := s.openWriter(ctx, o.steps); err != nil {
		return nil, err
	}
	if err := s.removeOrphans(ctx); err != nil {
		return nil, err
	}
	s.makeToken(o.Notice)
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	s.restamp(ctx)
	return s, nil
}

// OpenReadOnly opens the folder to follow its writer, in this or another process; there need not
// be one. It writes nothing except SQLite's -shm, if permitted.
//
// A copy of a database without -wal and -shm in a folder that cannot be written is read as it is;
// a writer that starts on it is not noticed.
//
// Its errors are those of Open except *LockedError, and fs.ErrNotExist if nothing has been written
// yet.
func OpenReadOnly(ctx context.Context, dir string) (_ *Store, err error) {
	s, err := newStore(dir, Options{Before: func(string) {}})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	have, err := s.openReaders(ctx)
	if err != nil {
		return nil, err
	}
	tighten(s.dir)
	if know := len(schema()); have != know {
		return nil, &SchemaError{Path: s.path, Have: have, Know: know}
	}
	return s, s.prepare(ctx)
}

// Empty returns a read-only store without content, for use while no folder is open.
func Empty(ctx context.Context) (*Store, error) {
	s, err := openMemory(ctx, Options{steps: schema(), Before: func(string) {}})
	if err == nil {
		s.writer = nil
	}
	return s, err
}

func newStore(dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open state folder: %w", err)
	}
	s := &Store{reads{&database{dir: dir, path: filepath.Join(dir, databaseName), step: o.Before}}}
	s.images = &folderImages{dir: filepath.Join(dir, segmentsName), step: o.Before}
	return s, nil
}

func openMemory(ctx context.Context, o Options) (_ *Store, err error) {
	s := &Store{reads{&database{path: Memory, step: o.Before, images: &memoryImages{}}}}
	if s.writer, err = openPool(Memory, 1, "_txlock=immediate", pragma("foreign_keys(1)")); err != nil {
		return nil, err
	}
	s.readers = s.writer
	if err := upgrade(ctx, s.writer, s.path, o.steps); err != nil {
		_ = s.Close()
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// prepare prepares the statements.
func (s *database) prepare(ctx context.Context) (err error) {
	if s.version, err = s.readers.PrepareContext(ctx, versionQuery); err != nil || s.writer == nil {
		return s.classify(err)
	}
	s.prepared = map[string]*sql.Stmt{}
	for _, query := range []string{findQuery, updateTimes, updateHash, removeQuery, insertDocument, insertChunk, updateBase, bumpVersion, logChange} {
		if s.prepared[query], err = s.writer.PrepareContext(ctx, query); err != nil {
			return s.classify(err)
		}
	}
	return nil
}

// Close closes the folder after waiting for calls in progress. The next writer can start when it
// returns.
func (s *database) Close() error {
	var errs []error
	if s.readers != nil && s.readers != s.writer {
		errs = append(errs, s.readers.Close())
	}
	if s.writer != nil {
		s.step("close")
		if s.lock != nil {
			// Move everything into the database file. This may fail, for example while a follower
			// is reading: the log is just as good, and the next writer tries again.
			_, _ = s.writer.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
		}
		errs = append(errs, s.writer.Close())
	}
	if s.lock != nil {
		errs = append(errs, release(s.lock))
	}
	return s.classify(errors.Join(errs...))
}
