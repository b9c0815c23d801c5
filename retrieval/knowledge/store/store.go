// Package store keeps knowledge bases on disk, and is the truth about them: bases,
// their documents with attributes and hashes, and the chunks they were cut into,
// in one SQLite database per state folder. Beside it lie segments, files that an
// index made of the chunks; losing them costs time only.
//
// One process writes a folder, any number read it meanwhile and see each
// transaction whole or not at all. A process that dies leaves the folder as after
// its last transaction. After a loss of power the last transactions may be missing,
// never a part of one: commits are synced at checkpoints, not each.
//
// The package knows nothing of analysis, files or rankings. A folder holds
//
//	knowledge.db  -wal  -shm   SQLite's; kept in WAL mode
//	segments/                  opaque images with checksums
//	lock                       held by the writer; says who that is
//	admin-token                made by the first writer, see AdminToken
//
// The folder and all in it are for its owner only, so followers run as the same user.
// Those that may not write it, as on a read-only mount, need -wal and -shm to be
// there: a writer leaves them behind when it closes.
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
	// Memory is the folder of a store that lives and dies with its process.
	Memory = ":memory:"

	databaseName = "knowledge.db"
	codeName     = "code"
	segmentsName = "segments"
	// Only the owner reads and writes: documents that nobody else may see are in there.
	// SQLite gives -wal and -shm the database's mode.
	folderMode = 0o700
	fileMode   = 0o600
)

// CodeFolder is where, in a state folder, a program may keep machine code that it can make
// anew; "" if there is no folder.
func CodeFolder(dir string) string {
	if dir == "" || dir == Memory {
		return ""
	}
	return filepath.Join(dir, codeName)
}

// Options is what Open needs to know.
type Options struct {
	// Address is where other processes can hand work to this one, such as its admin port.
	// They are told it when they want to write the folder.
	Address string

	// Before, if not nil, is called before each step that changes the folder: tests stop
	// the process there.
	Before func(step string)

	// Notice, if not nil, is called with what was wrong and was put right.
	Notice func(error)

	steps []string // of the schema; nil is schema()
}

// A Store is an open state folder. It is safe for concurrent use; writes wait for
// each other.
type Store struct{ reads }

// reads are the methods of a Store that change nothing.
type reads struct{ *database }

// A database is the files of an open state folder.
type database struct {
	dir, path string
	file      fs.FileInfo // the database when it was opened; nil in memory
	step      func(string)
	writer    *sql.DB // one connection; nil in a follower
	readers   *sql.DB // in memory the same as writer
	images    images
	lock      *os.File // nil in a follower and in memory
	listings  listings

	// Statements worth preparing once.
	version  *sql.Stmt            // of the readers: versionQuery
	prepared map[string]*sql.Stmt // of the writer, by text
}

// Open opens the folder for writing, and makes it where it is missing. Files of
// segments that the database does not name are removed.
//
// Its errors: *LockedError where somebody else writes the folder, *ForeignError and
// *SchemaError for a database that is not ours to write, *CorruptError for one with
// damage, ErrFull.
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
	// Read first: what is not ours to write is not opened for writing.
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

// OpenReadOnly opens the folder to follow what its writer does, in this process or
// another; it need not have one. Nothing is written but SQLite's -shm, and that
// only where it may be.
//
// A copy of a database without -wal and -shm, in a folder that cannot be written, is
// read as it is, and a writer that starts on it is not noticed.
//
// Its errors are those of Open but *LockedError, and fs.ErrNotExist where nothing
// has been written yet.
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

// Empty returns a store that holds nothing and takes nothing, to stand in while no folder is open.
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
	for _, query := range []string{findQuery, removeQuery, insertDocument, insertChunk, updateBase, bumpVersion, logChange} {
		if s.prepared[query], err = s.writer.PrepareContext(ctx, query); err != nil {
			return s.classify(err)
		}
	}
	return nil
}

// Close ends the use of the folder; calls under way are waited for. The next
// writer can start when it returns.
func (s *database) Close() error {
	var errs []error
	if s.readers != nil && s.readers != s.writer {
		errs = append(errs, s.readers.Close())
	}
	if s.writer != nil {
		s.step("close")
		if s.lock != nil {
			// So that the database file has everything. It may fail, as where a follower
			// is reading: the log is as good, and the next writer tries again.
			_, _ = s.writer.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
		}
		errs = append(errs, s.writer.Close())
	}
	if s.lock != nil {
		errs = append(errs, release(s.lock))
	}
	return s.classify(errors.Join(errs...))
}
