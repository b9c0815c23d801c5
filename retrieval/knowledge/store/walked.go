package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"slices"
	"time"
)

const (
	selectWalk = "SELECT at, sources, crc FROM walk WHERE base = ?"
	upsertWalk = "INSERT INTO walk VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET at = excluded.at, sources = excluded.sources, crc = excluded.crc"
)

// A Walk is the result of walking the whole folder of a base.
type Walk struct {
	At      time.Time // zero: nothing was stored
	Sources []uint64  // SourceKeys of the sources of documents, ascending
}

// SourceKey returns a hash of the name of a source.
func SourceKey(source string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(source)) // never fails
	return h.Sum64()
}

// Walk returns what SetWalk stored for a base, or ErrNotFound without the base.
func (s *reads) Walk(ctx context.Context, base string) (w Walk, err error) {
	err = s.readBase(ctx, "read the last walk of", base, func(tx *sql.Tx, b baseRow) error {
		list, err := query(ctx, tx, s.scanWalk, selectWalk, b.row)
		if len(list) > 0 {
			w = list[0]
		}
		return err
	})
	return w, err
}

// SetWalk stores the result of walking a base's folder; it is deleted with the base. The version
// does not change, because nothing that a follower shows has changed.
func (s *Store) SetWalk(ctx context.Context, base string, w Walk) error {
	return s.writeBase(ctx, "note the walk of", base, func(c *change, b *baseRow) error {
		at := w.At.UnixNano()
		list, err := binary.Append([]byte{}, binary.LittleEndian, slices.Compact(slices.Sorted(slices.Values(w.Sources))))
		if err != nil {
			return err
		}
		c.s.step("note walk")
		_, err = c.tx.ExecContext(c.ctx, upsertWalk, b.row, at, list, walkChecksum(at, list))
		return err
	})
}

func (s *reads) scanWalk(r *sql.Rows) (w Walk, err error) {
	var at, crc int64
	var list sql.RawBytes
	if err := r.Scan(&at, &list, &crc); err != nil {
		return w, err
	}
	if len(list)%8 != 0 || walkChecksum(at, list) != crc {
		return w, &CorruptError{Path: s.path, Err: errors.New("the note of the last walk does not match its checksum")}
	}
	w.At = time.Unix(0, at)
	w.Sources = make([]uint64, len(list)/8)
	_, err = binary.Decode(list, binary.LittleEndian, w.Sources)
	return w, err
}

func walkChecksum(at int64, list []byte) int64 {
	return int64(checksum(append(binary.LittleEndian.AppendUint64(nil, uint64(at)), list...)))
}
