package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	listDocuments = "FROM json_each(?) j CROSS JOIN document d ON d.row = j.value "
	updateTimes   = "UPDATE document SET size = ?, modified = ?, mark = ?, crc = ? WHERE row = ?"
	updateHash    = "UPDATE document SET hash = ? WHERE row = ?"
)

// A View is the state of a base at one moment, with what is needed to search its segments.
type View struct {
	Base     Base
	Segments []Segment             // oldest first
	Vectors  map[string]VectorFile // by segment name
	Damaged  []string              // names of further segments whose lists of documents are damaged
	Rows     []int64               // of the documents, ascending
	Others   []Stamp               // of the documents read by none of the given readers, by row
}

// View returns the state of a base at one moment, or ErrNotFound.
func (s *reads) View(ctx context.Context, base string, readers ...Reader) (v View, err error) {
	err = s.readBase(ctx, "look at", base, func(tx *sql.Tx, b baseRow) (err error) {
		v.Base = b.Base
		if v.Segments, err = query(ctx, tx, s.scanSegment, selectSegment+"WHERE b.id = ? ORDER BY s.row", base); err != nil {
			return err
		}
		if v.Vectors, err = s.vectorFiles(ctx, tx, base); err != nil {
			return err
		}
		v.Rows, v.Others, err = s.documents(ctx, tx, &b, readers)
		return err
	})
	v.Segments = slices.DeleteFunc(v.Segments, func(seg Segment) bool {
		if seg.Covers == nil {
			v.Damaged = append(v.Damaged, seg.Name)
		}
		return seg.Covers == nil
	})
	return v, err
}

// readBase runs f on a base in one consistent state of the database. The error is ErrNotFound
// without the base. It begins with doing and the base.
func (s *reads) readBase(ctx context.Context, doing, base string, f func(*sql.Tx, baseRow) error) error {
	return s.wrap(doing+" knowledge "+base, s.read(ctx, func(tx *sql.Tx) error {
		b, err := s.base(ctx, tx, base)
		if err != nil {
			return err
		}
		return f(tx, b)
	}))
}

// read runs f on one consistent state of the database.
func (s *database) read(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	return f(tx)
}

// Lookup returns, by id, those of the given documents that are in a base. The error is ErrNotFound
// if there is no such base.
func (s *reads) Lookup(ctx context.Context, base string, ids ...string) (map[string]Known, error) {
	found := make(map[string]Known, len(ids))
	err := s.readBase(ctx, "look for documents of", base, func(tx *sql.Tx, b baseRow) error {
		for _, id := range ids {
			list, err := query(ctx, tx, s.scanKnown, findQuery, b.row, id)
			if err != nil {
				return err
			}
			for _, k := range list {
				found[k.ID] = k
			}
		}
		return nil
	})
	return found, err
}

// IDsOfFile returns the ids of the documents of a base that are id itself or begin with id and #, in
// order. The error is ErrNotFound if there is no such base.
func (s *reads) IDsOfFile(ctx context.Context, base, id string) (ids []string, err error) {
	const from = "SELECT id FROM document WHERE base = ? AND (id = ? OR id > ? AND id < ?) ORDER BY id"
	err = s.readBase(ctx, "look for documents of", base, func(tx *sql.Tx, b baseRow) error {
		ids, err = query(ctx, tx, scanString, from, b.row, id, id+"#", id+"$") // $ follows #
		return err
	})
	return ids, err
}

// Entries returns the documents of a base with the given rows, with their chunks, sorted by id.
// Missing ones are left out.
func (s *reads) Entries(ctx context.Context, base string, rows []int64) (list []Entry, err error) {
	numbers, err := json.Marshal(rows)
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, func(tx *sql.Tx) error {
		const of = "WHERE d.base = (SELECT row FROM base WHERE id = ?) "
		if list, err = query(ctx, tx, s.scanEntry, selectColumns+listDocuments+of+"ORDER BY d.id", string(numbers), base); err != nil {
			return err
		}
		chunks, err := query(ctx, tx, s.scanFound,
			chunkColumns+listDocuments+"CROSS JOIN chunk c ON "+ofDocument+of+"ORDER BY d.id, c.row", string(numbers), base)
		for i := range list {
			n := 0
			for n < len(chunks) && chunks[n].row/maxChunks == list[i].Row {
				list[i].Chunks = append(list[i].Chunks, chunks[n].Chunk)
				n++
			}
			if chunks = chunks[n:]; err == nil && n != list[i].ChunkCount {
				err = &CorruptError{Path: s.path, Err: fmt.Errorf("%d of %d chunks of document %q are there", n, list[i].ChunkCount, list[i].ID)}
			}
		}
		return err
	})
	return list, s.wrap("read documents of knowledge "+base, err)
}

// Touch updates, by row, source size, time and hash of documents whose content has not changed;
// missing ones are ignored. The version does not change, because nothing that a follower shows has
// changed.
func (s *Store) Touch(ctx context.Context, base string, known []Known) error {
	return s.writeBase(ctx, "note times for", base, func(c *change, b *baseRow) error {
		for part := range slices.Chunk(known, pageDocuments) {
			if err := errors.Join(ctx.Err(), c.touch(b.row, part)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *change) touch(base int64, part []Known) error {
	byRow, numbers := make(map[int64]Known, len(part)), make([]int64, len(part))
	for i, k := range part {
		byRow[k.Row], numbers[i] = k, k.Row
	}
	list, err := json.Marshal(numbers)
	if err != nil {
		return err
	}
	rows, err := query(c.ctx, c.tx, c.s.scanStored, selectColumns+listDocuments+"WHERE d.base = ?", string(list), base)
	if err != nil {
		return err
	}
	for _, r := range rows {
		k := byRow[r.number]
		moved := r.Hash != k.Hash
		r.Size, r.modified, r.Mark, r.Hash = k.Size, nanoseconds(k.Modified), k.Mark, k.Hash
		c.s.step("touch document")
		if _, err := c.prepared(updateTimes).ExecContext(c.ctx, r.Size, r.modified, r.Mark, r.checksum(r.number, base), r.number); err != nil {
			return err
		}
		if !moved {
			continue
		}
		c.stamp(r.number)
		if _, err := c.prepared(updateHash).ExecContext(c.ctx, r.Hash[:], r.number); err != nil {
			return err
		}
	}
	return nil
}

// nanoseconds returns a time as it is stored.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
