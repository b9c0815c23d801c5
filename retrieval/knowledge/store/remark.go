package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"slices"
	"time"

	"sidenote/retrieval/knowledge/chunk"
)

const (
	selectRemarks = "SELECT source, size, modified, mark, reader, documents, text, crc FROM remark WHERE base = ?"
	upsertRemark  = "INSERT OR REPLACE INTO remark VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
	deleteRemark  = "DELETE FROM remark WHERE base = ? AND source = ?"
)

// A Remark is what to report about a version of a source without reading it again, above all why
// it could not be read.
type Remark struct {
	Source    string
	Size      int64 // this and the next two as in Document
	Modified  time.Time
	Mark      int64
	Reader    []byte // identifies what read it
	Documents int    // number of documents in it
	Text      string // what to report; the store does not interpret it
}

// Remarks returns the remarks of a base, or ErrNotFound without the base. Damaged remarks are left
// out: their sources are read again.
func (s *Store) Remarks(ctx context.Context, base string) (list []Remark, err error) {
	err = s.readBase(ctx, "read the remarks on", base, func(tx *sql.Tx, b baseRow) (err error) {
		list, err = query(ctx, tx, func(r *sql.Rows) (Remark, error) { return scanRemark(r, b.row) }, selectRemarks, b.row)
		return err
	})
	return slices.DeleteFunc(list, func(r Remark) bool { return r.Source == "" }), err
}

// SetRemarks stores remarks, replacing those on the same sources, and deletes those on the sources
// in forget. They are deleted with the base. The version does not change, because nothing that a
// follower shows has changed.
func (s *Store) SetRemarks(ctx context.Context, base string, remarks []Remark, forget []string) error {
	return s.writeBase(ctx, "note remarks on", base, func(c *change, b *baseRow) error {
		c.s.step("note remarks")
		for _, source := range forget {
			if _, err := c.tx.ExecContext(c.ctx, deleteRemark, b.row, source); err != nil {
				return err
			}
		}
		for _, r := range remarks {
			if _, err := c.tx.ExecContext(c.ctx, upsertRemark, b.row, r.Source, r.Size, nanoseconds(r.Modified), r.Mark,
				r.Reader, r.Documents, r.Text, r.checksum(b.row)); err != nil {
				return err
			}
		}
		return nil
	})
}

// scanRemark leaves Source empty if the row is damaged.
func scanRemark(r *sql.Rows, base int64) (m Remark, err error) {
	var modified, crc int64
	if err := r.Scan(&m.Source, &m.Size, &modified, &m.Mark, &m.Reader, &m.Documents, &m.Text, &crc); err != nil {
		return m, err
	}
	if m.Modified = timeOf(modified); m.checksum(base) != crc {
		m.Source = ""
	}
	return m, nil
}

func (m *Remark) checksum(base int64) int64 {
	var b []byte
	for _, v := range []int64{base, m.Size, nanoseconds(m.Modified), m.Mark, int64(m.Documents)} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return int64(checksum(append(b, chunk.Fields(m.Source, string(m.Reader), m.Text)...)))
}
