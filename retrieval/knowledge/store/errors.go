package store

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrNotFound means that there is no such base, document or segment.
	ErrNotFound = errors.New("not found")
	// ErrReadOnly is returned by every write to a store opened with OpenReadOnly.
	ErrReadOnly = errors.New("the store is open for reading only")
	// ErrFull means that the disk, a quota or a limit on file sizes left no space. Earlier writes
	// are kept; nothing remains of the failed one.
	ErrFull = errors.New("no space left for the state folder")
	// ErrReplaced means that the database file is no longer the one that was opened, for example
	// because a backup was restored. The store must be reopened.
	ErrReplaced = errors.New("the database was replaced by another file")
)

// A LockedError describes the process that writes the folder passed to Open. The writer stores it
// (except Dir) as JSON in the lock file.
type LockedError struct {
	Dir     string `json:"-"`
	PID     int    `json:"pid"`               // 0 if the holder has not written it yet
	Host    string `json:"host"`              // the host of PID
	Address string `json:"address,omitempty"` // where the holder accepts work from other processes; may be ""
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d on %s", e.PID, e.Host)
	}
	if e.Address != "" {
		who += ", which answers at " + e.Address
	}
	return fmt.Sprintf("state folder %s is being written by %s", e.Dir, who)
}

// A ForeignError means that a file is not a database of this package. The file was not modified.
type ForeignError struct {
	Path   string
	Reason string
}

func (e *ForeignError) Error() string { return e.Path + " " + e.Reason + "; the file was not modified" }

// A SchemaError means that this release cannot write (or, opened read-only, cannot read) the
// schema of a database.
type SchemaError struct {
	Path string
	Have int // schema version of the file
	Know int // highest version that this release supports
}

func (e *SchemaError) Error() string {
	if e.Have > e.Know {
		return fmt.Sprintf("%s has schema %d, newer than %d, which this release knows: use a newer release; the file was not modified", e.Path, e.Have, e.Know)
	}
	return fmt.Sprintf("%s has schema %d, this release reads %d: open it once for writing, which upgrades it", e.Path, e.Have, e.Know)
}

// A CorruptError means that a database is damaged.
type CorruptError struct {
	Path string
	Err  error // the damage
}

func (e *CorruptError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.Path, e.Err) }

// Unwrap returns Err.
func (e *CorruptError) Unwrap() error { return e.Err }

// A SegmentError means that the file of a segment is missing or damaged. Its documents are all in
// the database: drop the segment and make another.
type SegmentError struct {
	Base string
	Name string
	Err  error // the cause
}

func (e *SegmentError) Error() string {
	return fmt.Sprintf("segment %s of knowledge %s: %v", e.Name, e.Base, e.Err)
}

// Unwrap returns Err.
func (e *SegmentError) Unwrap() error { return e.Err }

// classify converts SQLite errors that callers distinguish into the error types of this package.
func (s *database) classify(err error) error { return classify(s.path, err) }

func classify(path string, err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch code := e.Code(); {
	case code&0xff == sqlite3.SQLITE_CORRUPT:
		return &CorruptError{Path: path, Err: err}
	case code&0xff == sqlite3.SQLITE_NOTADB:
		return &ForeignError{Path: path, Reason: "is not a database"}
	case code&0xff == sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %s: %w", ErrFull, path, err)
	case code == sqlite3.SQLITE_IOERR_WRITE, code == sqlite3.SQLITE_IOERR_SHMSIZE: // how a quota or a limit on file sizes appears in SQLite
		return fmt.Errorf("%w, or the disk refuses writes: %s: %w", ErrFull, path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Unusable reports whether an error means that the state folder cannot be used: it is full or
// damaged, its database belongs to another program or release, or SQLite fails.
func Unusable(err error) bool {
	var corrupt *CorruptError
	var foreign *ForeignError
	var schema *SchemaError
	var failed *sqlite.Error
	return errors.Is(err, ErrFull) || errors.Is(err, ErrReplaced) || errors.As(err, &corrupt) || errors.As(err, &foreign) || errors.As(err, &schema) || errors.As(err, &failed)
}
