package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
)

const (
	// stampBits is how many low bits of a row are its place in a block of stamps. Writing a
	// document rewrites a block of at most 20 KB; a base of 200,000 documents has 400 blocks.
	stampBits = 9
	// stampBytes is the size of a stamp in a block: row and hash.
	stampBytes = 8 + 32

	selectStamps = "SELECT row, hash FROM document WHERE base = ?"
	// By row and not by the index of ids: a block is contiguous in the table.
	selectBlock  = "SELECT row, hash FROM document NOT INDEXED WHERE row >= ? AND row < ? AND base = ? ORDER BY row"
	listBlocks   = "SELECT block, documents, crc FROM stamp WHERE base = ? ORDER BY block"
	allBlocks    = "SELECT block, documents, crc, list FROM stamp WHERE base = ? ORDER BY block"
	selectBlocks = "SELECT s.block, s.documents, s.crc, s.list FROM json_each(?) j CROSS JOIN stamp s ON s.block = j.value WHERE s.base = ?"
	upsertBlock  = "INSERT INTO stamp VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET documents = excluded.documents, crc = excluded.crc, list = excluded.list"
	removeBlock  = "DELETE FROM stamp WHERE base = ? AND block = ?"
	lackBlocks   = "SELECT row, id FROM base b WHERE documents <> (SELECT coalesce(sum(documents), 0) FROM stamp WHERE base = b.row)"
	usedBlocks   = "SELECT DISTINCT row >> ? FROM document WHERE base = ?"
)

// A Stamp is the part of a document that can be read for all documents at once.
type Stamp struct {
	Row  int64
	Hash [32]byte
}

func scanStamp(r *sql.Rows) (v Stamp, err error) {
	var hash sql.RawBytes
	err = r.Scan(&v.Row, &hash)
	copy(v.Hash[:], hash)
	return v, err
}

func blockChecksum(base, block int64, list []byte) int64 {
	b := binary.LittleEndian.AppendUint64(nil, uint64(base))
	return int64(checksum(append(binary.LittleEndian.AppendUint64(b, uint64(block)), list...)))
}

// stamp records that a document was written or removed.
func (c *change) stamp(row int64) {
	if c.blocks == nil {
		c.blocks = map[int64]bool{}
	}
	c.blocks[row>>stampBits] = true
}

// writeStamps writes the blocks of a base whose documents have changed.
func (c *change) writeStamps(base int64) error {
	for block := range c.blocks {
		if err := c.writeBlock(base, block); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) writeBlock(base, block int64) error {
	stamps, err := query(c.ctx, c.tx, scanStamp, selectBlock, block<<stampBits, (block+1)<<stampBits, base)
	if err != nil {
		return err
	}
	c.s.step("write stamps")
	if len(stamps) == 0 {
		_, err = c.tx.ExecContext(c.ctx, removeBlock, base, block)
		return err
	}
	list := make([]byte, 0, len(stamps)*stampBytes)
	for _, s := range stamps {
		list = append(binary.LittleEndian.AppendUint64(list, uint64(s.Row)), s.Hash[:]...)
	}
	_, err = c.tx.ExecContext(c.ctx, upsertBlock, base, block, len(stamps), blockChecksum(base, block, list), list)
	return err
}

// restamp writes missing stamps of bases, for example after an upgrade, in about 2 µs per
// document. Failing is harmless: View then reads the documents.
func (s *Store) restamp(ctx context.Context) {
	bases, err := query(ctx, s.writer, func(r *sql.Rows) (b baseRow, err error) {
		err = r.Scan(&b.row, &b.ID)
		return b, err
	}, lackBlocks)
	for _, b := range bases {
		err = errors.Join(err, s.write(ctx, func(c *change) error {
			blocks, err := query(c.ctx, c.tx, func(r *sql.Rows) (n int64, err error) {
				err = r.Scan(&n)
				return n, err
			}, usedBlocks, stampBits, b.row)
			for _, block := range blocks {
				c.stamp(block << stampBits)
			}
			return cmp.Or(err, ctx.Err(), c.writeStamps(b.row))
		}))
	}
	_ = err
}
