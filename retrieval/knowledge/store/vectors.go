package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// How long unused vectors are kept. Uses are recorded only every useDays, so an unused vector
// stays for 30 to 40 days.
const (
	useDays    = 10
	unusedDays = 30 + useDays
)

// A VectorKey is the digest of what a vector was made from: model, dimensions and text.
type VectorKey = [32]byte

// Vectors are the stored vectors of texts, by what they were made from, so that no text is
// embedded twice, whatever document it is in. The store does not interpret their values. A damaged
// vector is treated as missing.
type Vectors struct{ s *Store }

// VectorsOf returns the vectors of a store.
func VectorsOf(s *Store) Vectors { return Vectors{s} }

// A VectorSizeError means that vectors have another size than earlier ones of their space.
type VectorSizeError struct{ Got, Want int }

func (e *VectorSizeError) Error() string {
	return fmt.Sprintf("vectors of %d bytes, those before have %d", e.Got, e.Want)
}

const (
	selectVector = "SELECT crc, value FROM vector WHERE key = ?"
	upsertVector = "INSERT INTO vector (key, crc, value) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET crc = excluded.crc, value = excluded.value RETURNING row"
	upsertUse    = "INSERT INTO vector_use VALUES (?, ?) ON CONFLICT DO UPDATE SET day = max(day, excluded.day)"
	updateUse    = "UPDATE vector_use SET day = ? WHERE vector = (SELECT row FROM vector WHERE key = ?) AND day < ?"
	upsertSize   = "INSERT INTO vector_space VALUES (?, ?) ON CONFLICT DO UPDATE SET size = size RETURNING size"
	upsertNoted  = "INSERT INTO vector_noted VALUES (?, ?) ON CONFLICT DO UPDATE SET day = excluded.day"
	addSpent     = "INSERT INTO vector_spent VALUES (?, ?) ON CONFLICT DO UPDATE SET tokens = tokens + excluded.tokens"
)

// Get returns those of the vectors that are stored.
func (v Vectors) Get(ctx context.Context, keys ...VectorKey) (map[VectorKey][]byte, error) {
	found := make(map[VectorKey][]byte, len(keys))
	err := v.s.read(ctx, func(tx *sql.Tx) error {
		statement, err := tx.PrepareContext(ctx, selectVector)
		if err != nil {
			return err
		}
		defer func() { _ = statement.Close() }()
		for _, key := range keys {
			var crc int64
			var value []byte
			err := statement.QueryRowContext(ctx, key[:]).Scan(&crc, &value)
			if err == nil && vectorChecksum(key, value) == crc {
				found[key] = value
			} else if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		return nil
	})
	return found, v.s.wrap("read vectors", err)
}

func vectorChecksum(key VectorKey, value []byte) int64 {
	return int64(checksum(append(key[:], value...)))
}

// Put stores vectors, and adds the tokens spent on them, in one transaction. All vectors of a
// space must have one size; otherwise the error is a *VectorSizeError.
func (v Vectors) Put(ctx context.Context, space string, vectors map[VectorKey][]byte, tokens int, at time.Time) error {
	return v.s.wrap("keep vectors", v.s.write(ctx, func(c *change) error {
		c.s.step("keep vectors")
		for key, value := range vectors {
			size, row := 0, int64(0)
			if err := c.tx.QueryRowContext(c.ctx, upsertSize, space, len(value)).Scan(&size); err != nil {
				return err
			}
			if size != len(value) {
				return &VectorSizeError{Got: len(value), Want: size}
			}
			if err := c.tx.QueryRowContext(c.ctx, upsertVector, key[:], vectorChecksum(key, value), value).Scan(&row); err != nil {
				return err
			}
			if _, err := c.tx.ExecContext(c.ctx, upsertUse, row, dayOf(at)); err != nil {
				return err
			}
		}
		_, err := c.tx.ExecContext(c.ctx, addSpent, dayOf(at), tokens)
		return err
	}))
}

// Size returns the size in bytes of each vector of a space; 0 if it has none yet.
func (v Vectors) Size(ctx context.Context, space string) (bytes int, err error) {
	list, err := query(ctx, v.s.readers, func(r *sql.Rows) (n int, err error) { return n, r.Scan(&n) }, "SELECT size FROM vector_space WHERE name = ?", space)
	if len(list) > 0 {
		bytes = list[0]
	}
	return bytes, v.s.wrap("read size of vectors", err)
}

// Spent returns how many tokens were spent on vectors on the day of at.
func (v Vectors) Spent(ctx context.Context, at time.Time) (tokens int, err error) {
	list, err := query(ctx, v.s.readers, func(r *sql.Rows) (n int, err error) { return n, r.Scan(&n) }, "SELECT tokens FROM vector_spent WHERE day = ?", dayOf(at))
	if len(list) > 0 {
		tokens = list[0]
	}
	return tokens, v.s.wrap("read spent tokens", err)
}

// Touch records that vectors are used; missing ones are ignored.
func (v Vectors) Touch(ctx context.Context, at time.Time, keys ...VectorKey) error {
	if len(keys) == 0 {
		return nil
	}
	return v.s.wrap("note use of vectors", v.s.write(ctx, func(c *change) error {
		c.s.step("note use of vectors")
		for _, key := range keys {
			if _, err := c.tx.ExecContext(c.ctx, updateUse, dayOf(at), key[:], dayOf(at)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Use records that a base uses vectors, unless that was done a few days ago; then it does not
// iterate over keys. The error is ErrNotFound without the base.
func (v Vectors) Use(ctx context.Context, base string, keys iter.Seq[VectorKey], at time.Time) error {
	row, noted := int64(0), int64(0)
	err := v.s.readBase(ctx, "look for vectors of", base, func(tx *sql.Tx, b baseRow) error {
		row = b.row
		return tx.QueryRowContext(ctx, "SELECT coalesce(max(day), 0) FROM vector_noted WHERE base = ?", b.row).Scan(&noted)
	})
	if err != nil || dayOf(at) < noted+useDays {
		return err
	}
	page := make([]VectorKey, 0, 1024)
	for key := range keys {
		if page = append(page, key); len(page) == cap(page) {
			if err := v.Touch(ctx, at, page...); err != nil {
				return err
			}
			page = page[:0]
		}
	}
	if err := v.Touch(ctx, at, page...); err != nil {
		return err
	}
	return v.s.wrap("note use of vectors", v.s.write(ctx, func(c *change) error {
		_, err := c.tx.ExecContext(c.ctx, upsertNoted, row, dayOf(at))
		return err
	}))
}

// Forget removes the vectors that were not used for a while, and returns their number. Call it
// after Use for all bases.
func (v Vectors) Forget(ctx context.Context, at time.Time) (n int, err error) {
	rows, err := query(ctx, v.s.readers, func(r *sql.Rows) (row int64, err error) { return row, r.Scan(&row) }, "SELECT vector FROM vector_use WHERE day < ?", dayOf(at)-unusedDays)
	if err == nil {
		err = v.remove(ctx, rows)
	}
	return len(rows), v.s.wrap("forget vectors", err)
}

// dayOf returns the number of a day in UTC.
func dayOf(at time.Time) int64 { return at.Unix() / int64(24*time.Hour/time.Second) }

// Retain removes all vectors but those with the given keys, and returns how many it removed.
func (v Vectors) Retain(ctx context.Context, keys map[VectorKey]bool) (n int, err error) {
	rows, err := query(ctx, v.s.readers, func(r *sql.Rows) (row int64, err error) {
		var key sql.RawBytes
		if err := r.Scan(&row, &key); err != nil || len(key) == len(VectorKey{}) && keys[VectorKey(key)] {
			return 0, err
		}
		return row, nil
	}, "SELECT row, key FROM vector")
	rows = slices.DeleteFunc(rows, func(row int64) bool { return row == 0 })
	if err == nil {
		err = v.remove(ctx, rows)
	}
	return len(rows), v.s.wrap("forget vectors", err)
}

func (v Vectors) remove(ctx context.Context, rows []int64) error {
	for page := range slices.Chunk(rows, 1024) {
		err := v.s.write(ctx, func(c *change) error {
			c.s.step("forget vectors")
			for _, row := range page {
				if _, err := c.tx.ExecContext(c.ctx, "DELETE FROM vector WHERE row = ?", row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
