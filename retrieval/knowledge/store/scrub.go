package store

import (
	"context"
	"database/sql"
	"errors"
)

// ErrReaders means that the log could not be emptied because it is being read.
var ErrReaders = errors.New("the log is being read")

// Scrub writes the database anew without its free pages, which may hold texts that were deleted by
// earlier releases, and empties its log. It needs as much free disk space as the database takes.
func (s *Store) Scrub(ctx context.Context) error {
	return s.wrap("scrub the database", s.onWriter(ctx, func(conn *sql.Conn) error {
		s.step("scrub")
		_, err := conn.ExecContext(ctx, "VACUUM")
		return errors.Join(err, s.emptyLog(ctx, conn))
	}))
}

// EmptyLog moves the log into the database, so that what was deleted is in neither. The error is
// ErrReaders while others read the log.
func (s *Store) EmptyLog(ctx context.Context) error {
	return s.wrap("empty the log", s.onWriter(ctx, func(conn *sql.Conn) error { return s.emptyLog(ctx, conn) }))
}

// onWriter runs f on the writing connection, outside a transaction.
func (s *Store) onWriter(ctx context.Context, f func(*sql.Conn) error) error {
	if s.writer == nil {
		return ErrReadOnly
	}
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return f(conn)
}

func (s *Store) emptyLog(ctx context.Context, conn *sql.Conn) error {
	s.step("empty log")
	var busy, log, moved int
	if err := conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &moved); err != nil {
		return err
	}
	if busy != 0 {
		return ErrReaders
	}
	return nil
}
