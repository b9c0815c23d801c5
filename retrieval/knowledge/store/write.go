package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	findQuery      = selectDocument + "WHERE d.base = ? AND d.id = ?"
	presentQuery   = "SELECT id FROM document WHERE base = ? AND id IN "
	removeQuery    = "DELETE FROM document WHERE row = ?"
	lastDocument   = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'document'"
	insertDocument = "INSERT INTO document VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	insertChunk    = "INSERT INTO chunk VALUES (?, ?, ?, ?, ?)"
)

// maxParameters is the most documents that one query names.
const maxParameters = 512

// errUnchanged ends a transaction that has nothing to write.
var errUnchanged = errors.New("unchanged")

// Put writes documents, replacing those with the same ids, in one transaction, and returns their
// rows. The error is ErrNotFound without the base; if a document is invalid or ctx ends, nothing
// is changed.
func (s *Store) Put(ctx context.Context, base string, docs []Document) (rows []int64, err error) {
	ready, err := rowsOf(docs)
	if err != nil {
		return nil, fmt.Errorf("write to knowledge %s: %w", base, err)
	}
	rows = make([]int64, len(ready))
	err = s.writeBase(ctx, "write to", base, func(c *change, b *baseRow) (err error) {
		present, err := c.present(b, ready)
		if err != nil {
			return err
		}
		for i := range ready {
			if err := ctx.Err(); err != nil {
				return err
			}
			if present[ready[i].ID] {
				if err := c.drop(b, ready[i].ID); err != nil {
					return err
				}
			}
			if rows[i], err = c.insert(b, &ready[i]); err != nil {
				return fmt.Errorf("document %q: %w", ready[i].ID, err)
			}
		}
		return c.finish(b)
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Delete removes documents in one transaction; unknown ids are ignored. The error is ErrNotFound
// if there is no such base.
func (s *Store) Delete(ctx context.Context, base string, ids ...string) error {
	return s.writeBase(ctx, "delete from", base, func(c *change, b *baseRow) error {
		before := b.Documents
		for _, id := range ids {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.drop(b, id); err != nil {
				return err
			}
		}
		if b.Documents == before {
			return errUnchanged
		}
		return c.finish(b)
	})
}

// A change is a transaction that writes.
type change struct {
	s      *Store
	ctx    context.Context // for the statements: not cancelled, see write
	tx     *sql.Tx
	last   int64          // last row given to a document; 0 if not known yet
	blocks map[int64]bool // blocks of stamps whose documents have changed

	statements map[string]*sql.Stmt // prepared ones of the transaction, by text

	unnamed []string // vector files that the database no longer refers to afterwards
}

// write runs f in a transaction and commits it. ctx ends only the wait for other writes, and f
// checks it between documents. Statements do not use it, because watching it costs a goroutine for
// each.
func (s *Store) write(ctx context.Context, f func(*change) error) error {
	if s.writer == nil {
		return ErrReadOnly
	}
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	steady := context.WithoutCancel(ctx)
	s.step("begin")
	tx, err := conn.BeginTx(steady, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	c := &change{s: s, ctx: steady, tx: tx}
	if err := f(c); err != nil {
		if errors.Is(err, errUnchanged) {
			return nil
		}
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.step("commit")
	if err := tx.Commit(); err != nil {
		return err
	}
	s.step("committed")
	s.discard(c.unnamed)
	return nil
}

// writeBase runs f on a base in a transaction and commits it, as write does. The error is
// ErrNotFound without the base. It begins with doing and the base.
func (s *Store) writeBase(ctx context.Context, doing, base string, f func(*change, *baseRow) error) error {
	return s.wrap(doing+" knowledge "+base, s.write(ctx, func(c *change) error {
		b, err := s.base(c.ctx, c.tx, base)
		if err != nil {
			return err
		}
		if err := f(c, &b); err != nil {
			return err
		}
		return c.writeStamps(b.row)
	}))
}

// prepared returns a prepared statement for use in the transaction.
func (c *change) prepared(query string) *sql.Stmt {
	if c.statements == nil {
		c.statements = map[string]*sql.Stmt{}
	}
	if c.statements[query] == nil {
		c.statements[query] = c.tx.Stmt(c.s.prepared[query])
	}
	return c.statements[query]
}

// present returns which of some documents exist, by id.
func (c *change) present(b *baseRow, documents []row) (map[string]bool, error) {
	present := map[string]bool{}
	for part := range slices.Chunk(documents, maxParameters) {
		args := []any{b.row}
		for _, d := range part {
			args = append(args, d.ID)
		}
		rows, err := c.tx.QueryContext(c.ctx, presentQuery+"("+strings.Repeat("?,", len(part)-1)+"?)", args...)
		if err != nil {
			return nil, err
		}
		ids, err := collect(rows, func(rows *sql.Rows) (id string, err error) {
			err = rows.Scan(&id)
			return id, err
		})
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			present[id] = true
		}
	}
	return present, nil
}

// drop removes a document with its chunks, if it exists.
func (c *change) drop(b *baseRow, id string) error {
	rows, err := c.prepared(findQuery).QueryContext(c.ctx, b.row, id)
	if err != nil {
		return err
	}
	list, err := collect(rows, c.s.scanEntry)
	if err != nil || len(list) == 0 {
		return err
	}
	c.s.step("remove document")
	c.stamp(list[0].Row)
	if _, err := c.prepared(removeQuery).ExecContext(c.ctx, list[0].Row); err != nil {
		return err
	}
	b.Documents--
	b.Chunks -= list[0].ChunkCount
	b.Bytes -= list[0].Bytes
	b.Sum = b.Sum.Sub(list[0].Sum)
	return nil
}

// insert adds a document with its chunks.
func (c *change) insert(b *baseRow, r *row) (int64, error) {
	c.s.step("insert document")
	if c.last == 0 {
		if err := c.tx.QueryRowContext(c.ctx, lastDocument).Scan(&c.last); err != nil {
			return 0, err
		}
	}
	number := c.last + 1
	_, err := c.prepared(insertDocument).ExecContext(c.ctx, number, b.row, r.ID, r.Name, r.Kind, r.Source,
		r.Size, r.modified, r.Mark, r.Hash[:], r.attributes, r.Sum[:], r.chunks, r.bytes, r.checksum(number, b.row))
	if err != nil {
		return 0, err
	}
	c.last = number
	c.stamp(number)
	insert := c.prepared(insertChunk)
	for i, ch := range r.Chunks {
		if i == len(r.Chunks)/2 {
			c.s.step("insert chunks")
		}
		at := chunkRow(number, i)
		crc := chunkChecksum(at, ch.Section, ch.Text, r.tokens[i])
		if _, err := insert.ExecContext(c.ctx, at, ch.Section, ch.Text, r.tokens[i], crc); err != nil {
			return 0, fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	b.Documents++
	b.Chunks += r.chunks
	b.Bytes += r.bytes
	b.Sum = b.Sum.Add(r.Sum)
	return number, nil
}

// finish writes the changed base.
func (c *change) finish(b *baseRow) (err error) {
	if b.Version, err = c.note(b.ID); err != nil {
		return err
	}
	c.s.step("update base")
	b.Changed = time.Now()
	_, err = c.prepared(updateBase).ExecContext(c.ctx, b.Origin, b.Documents, b.Chunks, b.Bytes, b.Sum[:], b.Version, b.Changed.UnixNano(), b.checksum(), b.row)
	return err
}

// note increases the version and records that a base changed.
func (c *change) note(base string) (version int64, err error) {
	c.s.step("raise version")
	if err := c.prepared(bumpVersion).QueryRowContext(c.ctx).Scan(&version); err != nil {
		return 0, err
	}
	_, err = c.prepared(logChange).ExecContext(c.ctx, base, version)
	return version, err
}
