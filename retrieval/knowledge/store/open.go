package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// readConnections is the number of concurrent reads.
	readConnections = 4
	// busyMilliseconds is how long to wait for an SQLite lock. Only external tools and the
	// recovery after a crash hold one for longer than a moment.
	busyMilliseconds = 5000
	// pageBytes is large enough for most chunks; several fit on one page.
	pageBytes = 8192
	// walPages is the log size at which a checkpoint runs, which syncs log and database: 32 MB. A
	// log that a large transaction made longer is truncated to it.
	walPages = 4096
	// quickCheck is the size in bytes up to which a database is checked completely when it is
	// opened, which takes about 10 ms.
	quickCheck = 4 << 20
)

func pragma(p string) string { return "_pragma=" + url.QueryEscape(p) }

// openPool opens a pool of at most n connections on a file or Memory.
func openPool(path string, n int, query ...string) (*sql.DB, error) {
	name := "file::memory:"
	if path != Memory {
		// Three slashes, also before a drive letter.
		name = (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/")}).String()
	}
	query = append(query,
		pragma(fmt.Sprintf("busy_timeout(%d)", busyMilliseconds)),
		pragma("trusted_schema(0)"), // nothing in the file can call functions
		pragma("cell_size_check(1)"),
	)
	connector, err := sqlite.NewConnector(name + "?" + strings.Join(query, "&"))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// create makes the database if it does not exist. It is renamed to its final name when it is
// complete, so a file of that name is never an incomplete database.
func (s *database) create(ctx context.Context, steps []string) error {
	if _, err := os.Lstat(s.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := s.path + ".new"
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} { // left by a process that died
		if err := os.Remove(fresh + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	s.step("create: write")
	// Create it here: SQLite would make it readable for everybody.
	if err := writeNew(fresh, nil, func() {}); err != nil {
		return err
	}
	db, err := openPool(fresh, 1, "_txlock=immediate",
		pragma(fmt.Sprintf("page_size(%d)", pageBytes)), pragma("journal_mode(WAL)"), pragma("synchronous(FULL)"),
		pragma(fmt.Sprintf("application_id(%d)", applicationID)))
	if err != nil {
		return err
	}
	err = upgrade(ctx, db, fresh, steps)
	s.step("create: close") // this checkpoints and syncs
	if err := errors.Join(err, classify(fresh, db.Close())); err != nil {
		return err
	}
	s.step("create: rename")
	if err := os.Rename(fresh, s.path); err != nil {
		return err
	}
	s.step("create: sync folder")
	return syncDir(s.dir)
}

// openReaders opens the pool for reading and returns the schema version.
func (s *database) openReaders(ctx context.Context) (schema int, err error) {
	if s.file, err = os.Stat(s.path); err != nil {
		return 0, fmt.Errorf("open state folder: %w", err)
	}
	if err := s.identify(ctx); err != nil {
		return 0, err
	}
	read := func(mode string) error {
		if s.readers, err = openPool(s.path, readConnections, mode); err != nil {
			return err
		}
		return s.readers.QueryRowContext(ctx, "PRAGMA user_version").Scan(&schema)
	}
	err = read("mode=ro")
	if e, ok := errors.AsType[*sqlite.Error](err); ok && (e.Code() == sqlite3.SQLITE_READONLY_DIRECTORY || e.Code()&0xff == sqlite3.SQLITE_CANTOPEN) && s.alone() {
		_ = s.readers.Close()
		err = read("immutable=1")
	}
	if err == nil && s.file.Size() <= quickCheck {
		err = s.check(ctx)
	}
	return schema, s.classify(err)
}

// alone reports whether there is no log beside the database, which means that nobody has it open.
func (s *database) alone() bool {
	_, err := os.Stat(s.path + "-wal")
	return errors.Is(err, fs.ErrNotExist)
}

// identify returns a *ForeignError unless the file is one of our databases. It takes no lock and
// writes nothing. It uses SQLite because closing a file of our own would drop the locks that this
// process holds on it.
func (s *database) identify(ctx context.Context) error {
	if s.file.Size() == 0 {
		return &ForeignError{Path: s.path, Reason: "is empty, not a database"}
	}
	// writable_schema makes SQLite read the first page even if a checkpoint is in progress, or its
	// process died during one, and the file is shorter than the page says.
	db, err := openPool(s.path, 1, "immutable=1", pragma("writable_schema(1)"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var id int64
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return s.classify(err)
	}
	if id != applicationID {
		return &ForeignError{Path: s.path, Reason: fmt.Sprintf("is the database of another application (id %#x)", id)}
	}
	return nil
}

// openWriter opens the only writing connection, and upgrades the schema.
func (s *database) openWriter(ctx context.Context, steps []string) (err error) {
	s.writer, err = openPool(s.path, 1, "_txlock=immediate",
		pragma("journal_mode(WAL)"), pragma("synchronous(NORMAL)"), pragma("foreign_keys(1)"),
		pragma("secure_delete(1)"), // what is deleted is overwritten with zeros
		pragma(fmt.Sprintf("wal_autocheckpoint(%d)", walPages)), pragma(fmt.Sprintf("journal_size_limit(%d)", walPages*pageBytes)))
	if err != nil {
		return err
	}
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return s.classify(err)
	}
	err = conn.Raw(func(c any) error {
		_, err := c.(sqlite.FileControl).FileControlPersistWAL("main", 1)
		return err
	})
	if err := errors.Join(err, conn.Close()); err != nil {
		return s.classify(err)
	}
	s.step("upgrade")
	return upgrade(ctx, s.writer, s.path, steps)
}

// check checks all of the database for damage.
func (s *database) check(ctx context.Context) error {
	var found string
	if err := s.readers.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return &CorruptError{Path: s.path, Err: errors.New(found)}
	}
	return nil
}
