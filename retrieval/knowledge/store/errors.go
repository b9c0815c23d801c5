package store

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrNotFound says that there is no such base, document or segment.
	ErrNotFound = errors.New("not found")
	// ErrReadOnly answers every write to a store opened with OpenReadOnly.
	ErrReadOnly = errors.New("the store is open for reading only")
	// ErrFull says that the disk, a quota or a limit on file sizes had no room. Earlier
	// writes stand; of the one that failed nothing remains.
	ErrFull = errors.New("no space left for the state folder")
	// ErrReplaced says that the database is no longer the file that was opened: a
	// backup was put in its place, say. The store must be opened anew.
	ErrReplaced = errors.New("the database was replaced by another file")
)

// A LockedError says who writes the folder that Open was asked for. But for the folder, the
// writer says it of itself in the lock file, as JSON.
type LockedError struct {
	Dir     string `json:"-"`
	PID     int    `json:"pid"`               // 0 where the holder has not written it yet
	Host    string `json:"host"`              // where PID counts
	Address string `json:"address,omitempty"` // where other processes can hand work to the holder; "" for nowhere
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

// A ForeignError names a file that is no database of this package. It was left as
// it is, byte for byte.
type ForeignError struct {
	Path   string
	Reason string
}

func (e *ForeignError) Error() string { return e.Path + " " + e.Reason + "; it was left as it is" }

// A SchemaError names a database whose schema this release does not write, or,
// open for reading only, does not read.
type SchemaError struct {
	Path string
	Have int // version of the schema in the file
	Know int // version that this release has
}

func (e *SchemaError) Error() string {
	if e.Have > e.Know {
		return fmt.Sprintf("%s has schema %d, newer than %d, which this release knows: use a newer release; it was left as it is", e.Path, e.Have, e.Know)
	}
	return fmt.Sprintf("%s has schema %d, this release reads %d: open it once for writing, which upgrades it", e.Path, e.Have, e.Know)
}

// A CorruptError names a database with damage in it.
type CorruptError struct {
	Path string
	Err  error // what was found
}

func (e *CorruptError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.Path, e.Err) }

// Unwrap returns what was found.
func (e *CorruptError) Unwrap() error { return e.Err }

// A SegmentError names a segment whose file is missing or damaged. Its documents
// are all still in the database: drop the segment and make another of them.
type SegmentError struct {
	Base string
	Name string
	Err  error // what is wrong with it
}

func (e *SegmentError) Error() string {
	return fmt.Sprintf("segment %s of knowledge %s: %v", e.Name, e.Base, e.Err)
}

// Unwrap returns what is wrong with it.
func (e *SegmentError) Unwrap() error { return e.Err }

// classify gives the errors of SQLite that callers tell apart their types.
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
	case code == sqlite3.SQLITE_IOERR_WRITE, code == sqlite3.SQLITE_IOERR_SHMSIZE: // as a quota and a limit on file sizes reach SQLite
		return fmt.Errorf("%w, or its disk does not take it: %s: %w", ErrFull, path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Unusable reports whether an error means that the state folder cannot be used: it is full or
// damaged, its database is of another program or release, or SQLite cannot work with it.
func Unusable(err error) bool {
	var corrupt *CorruptError
	var foreign *ForeignError
	var schema *SchemaError
	var failed *sqlite.Error
	return errors.Is(err, ErrFull) || errors.Is(err, ErrReplaced) || errors.As(err, &corrupt) || errors.As(err, &foreign) || errors.As(err, &schema) || errors.As(err, &failed)
}
