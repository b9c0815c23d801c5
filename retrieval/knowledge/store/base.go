package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"sidenote/retrieval/knowledge/chunk"
)

// A Base is the stored description of a knowledge base.
type Base struct {
	ID        string // [a-z0-9_-]{1,64}
	Origin    string // the folder of its documents, see ReadOrigin; "" for none
	Documents int
	Chunks    int
	Bytes     int64     // total length of the chunks' texts
	Sum       chunk.Sum // sum of its documents' sums
	Version   int64     // version of the store when documents last changed
	Changed   time.Time // time of that change
}

const (
	versionQuery = "SELECT version FROM state"
	bumpVersion  = "UPDATE state SET version = version + 1 RETURNING version"
	logChange    = "INSERT INTO change VALUES (?, ?) ON CONFLICT DO UPDATE SET version = excluded.version"
	selectBase   = "SELECT row, id, origin, documents, chunks, bytes, sum, version, changed, crc FROM base "
	insertBase   = "INSERT INTO base (id, origin, documents, chunks, bytes, sum, version, changed, crc) VALUES (?, '', 0, 0, 0, ?, 0, 0, 0) ON CONFLICT DO NOTHING RETURNING row"
	updateBase   = "UPDATE base SET origin = ?, documents = ?, chunks = ?, bytes = ?, sum = ?, version = ?, changed = ?, crc = ? WHERE row = ?"
)

// Bases returns all bases, sorted by id. If some are damaged, it returns the others and an error
// that names the damaged ones.
func (s *reads) Bases(ctx context.Context) ([]Base, error) {
	var damage []error
	rows, err := query(ctx, s.readers, func(r *sql.Rows) (baseRow, error) {
		b, err := s.scanBase(r)
		if corrupt := (*CorruptError)(nil); errors.As(err, &corrupt) && validBase(b.ID) == nil {
			damage = append(damage, fmt.Errorf("knowledge %s: %w", b.ID, err))
			return baseRow{}, nil
		}
		return b, err
	}, selectBase+"ORDER BY id")
	var bases []Base
	for _, r := range rows {
		if r.row != 0 {
			bases = append(bases, r.Base)
		}
	}
	return bases, s.wrap("list knowledge", errors.Join(err, errors.Join(damage...)))
}

// Base returns one base, or ErrNotFound.
func (s *reads) Base(ctx context.Context, id string) (Base, error) {
	row, err := s.base(ctx, s.readers, id)
	return row.Base, s.wrap("knowledge "+id, err)
}

// A baseRow is a base with its row id.
type baseRow struct {
	Base
	row int64
}

func (s *reads) base(ctx context.Context, q queryer, id string) (baseRow, error) {
	bases, err := query(ctx, q, s.scanBase, selectBase+"WHERE id = ?", id)
	if err == nil && len(bases) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return baseRow{}, err
	}
	return bases[0], nil
}

func (s *reads) scanBase(r *sql.Rows) (b baseRow, err error) {
	var sum sql.RawBytes
	var changed, crc int64
	if err = r.Scan(&b.row, &b.ID, &b.Origin, &b.Documents, &b.Chunks, &b.Bytes, &sum, &b.Version, &changed, &crc); err != nil {
		return b, err
	}
	copy(b.Sum[:], sum)
	b.Changed = time.Unix(0, changed)
	if b.checksum() != crc {
		return b, s.mismatch("knowledge", b.row)
	}
	return b, nil
}

func (b *baseRow) checksum() int64 {
	var buf []byte
	for _, v := range []int64{b.row, int64(b.Documents), int64(b.Chunks), b.Bytes, b.Version, b.Changed.UnixNano()} {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(v))
	}
	buf = append(binary.AppendUvarint(append(buf, b.Sum[:]...), uint64(len(b.ID))), b.ID...)
	return int64(checksum(append(buf, b.Origin...)))
}

// CreateBase makes an empty base; it does nothing if the base exists.
func (s *Store) CreateBase(ctx context.Context, id string) error {
	if err := validBase(id); err != nil {
		return err
	}
	return s.wrap("create knowledge "+id, s.write(ctx, func(c *change) error {
		b := baseRow{Base: Base{ID: id}}
		err := c.tx.QueryRowContext(c.ctx, insertBase, id, b.Sum[:]).Scan(&b.row)
		if errors.Is(err, sql.ErrNoRows) {
			return errUnchanged
		}
		if err != nil {
			return err
		}
		return c.finish(&b)
	}))
}

// SetOrigin sets the origin of a base, see ReadOrigin. The error is ErrNotFound if there is no
// such base.
func (s *Store) SetOrigin(ctx context.Context, id, origin string) error {
	return s.writeBase(ctx, "change", id, func(c *change, b *baseRow) error {
		if b.Origin == origin {
			return errUnchanged
		}
		b.Origin = origin
		return c.finish(b)
	})
}

const selectFiles = "SELECT name FROM segment WHERE base = ? UNION ALL SELECT v.name FROM segment_vectors v JOIN segment s ON s.row = v.segment WHERE s.base = ?"

// DeleteBase removes a base with its documents and segments. It returns ErrNotFound if there is no
// such base.
func (s *Store) DeleteBase(ctx context.Context, id string) error {
	var gone []string
	err := s.writeBase(ctx, "delete", id, func(c *change, b *baseRow) (err error) {
		if gone, err = query(c.ctx, c.tx, scanString, selectFiles, b.row, b.row); err != nil {
			return err
		}
		s.step("delete base")
		if _, err := c.tx.ExecContext(c.ctx, "DELETE FROM base WHERE row = ?", b.row); err != nil {
			return err
		}
		_, err = c.note(id)
		return err
	})
	if err == nil {
		s.discard(gone)
	}
	return err
}

// Version returns a number that every transaction increases, so that followers can poll for
// changes. It is 0 in a new store. Compare it for equality: a restored backup may have a lower
// one. If the file was replaced while it was open, the error is ErrReplaced.
func (s *reads) Version(ctx context.Context) (int64, error) {
	if s.file != nil {
		if now, err := os.Stat(s.path); err != nil || !os.SameFile(s.file, now) {
			return 0, fmt.Errorf("%s: %w", s.path, ErrReplaced)
		}
	}
	var v int64
	err := s.version.QueryRowContext(ctx).Scan(&v)
	return v, s.wrap("read version", err)
}

// Changes returns the bases that changed after version since, including deleted ones, and the
// version to pass next time.
func (s *reads) Changes(ctx context.Context, since int64) (version int64, bases []string, err error) {
	if version, err = s.Version(ctx); err != nil || version == since {
		return version, nil, err
	}
	bases, err = query(ctx, s.readers, scanString, "SELECT base FROM change WHERE version > ? ORDER BY base", since)
	return version, bases, s.wrap("read changes", err)
}

func scanString(r *sql.Rows) (v string, err error) {
	err = r.Scan(&v)
	return v, err
}

// A queryer is a connection pool or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// query returns all rows of a query. It leaves nothing open, so that a caller may write between
// two queries even with a single connection.
func query[T any](ctx context.Context, q queryer, scan func(*sql.Rows) (T, error), text string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scan)
}

func collect[T any](rows *sql.Rows, scan func(*sql.Rows) (T, error)) (out []T, err error) {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// wrap adds what was being done to an error; nil stays nil.
func (s *database) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, s.classify(err))
}
