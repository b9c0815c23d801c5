package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// A Reader is the prefix of document hashes: it identifies how the document was read.
type Reader [8]byte

// A block is the decoded content of a block of stamps. It is immutable.
type block struct {
	blockHead
	places []uint16 // of the rows in the block, ascending
	others []Stamp  // of documents that were read by none of the readers
}

// A blockHead identifies a version of a block. Two versions have the same checksum only as rarely
// as damage goes unnoticed.
type blockHead struct{ number, documents, crc int64 }

// A listing is the documents of a base as last read. It takes two bytes per document and is
// immutable.
type listing struct {
	readers []Reader
	blocks  map[int64]block // by number
}

// listings are the listings of bases, by row. They avoid reading unchanged blocks again: 8 MB for
// a base of 200,000 documents.
type listings struct {
	mu   sync.Mutex
	kept map[int64]listing
}

// of returns the listing of a base, or an empty one if there is none for these readers.
func (l *listings) of(base int64, readers []Reader) listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept := l.kept[base]; slices.Equal(kept.readers, readers) {
		return kept
	}
	return listing{readers: readers}
}

func (l *listings) keep(base int64, list listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		l.kept = map[int64]listing{}
	}
	l.kept[base] = list
}

// documents returns the rows of all documents of a base, ascending, and the stamps of those that
// were read by none of the readers. It reads them from blocks. Every change of a document removes
// its block, which is rewritten in the same transaction. If a block is missing or damaged, the
// documents are read instead.
func (s *database) documents(ctx context.Context, tx *sql.Tx, b *baseRow, readers []Reader) (rows []int64, others []Stamp, err error) {
	heads, err := query(ctx, tx, scanHead, listBlocks, b.row)
	if err != nil {
		return nil, nil, err
	}
	before := s.listings.of(b.row, readers)
	now, err := s.readBlocks(ctx, tx, b.row, heads, before)
	if err != nil {
		return nil, nil, err
	}
	rows = make([]int64, 0, max(0, b.Documents))
	for _, head := range heads {
		block := now.blocks[head.number]
		for _, place := range block.places {
			rows = append(rows, head.number<<stampBits|int64(place))
		}
		others = append(others, block.others...)
	}
	if len(rows) == b.Documents {
		s.listings.keep(b.row, now)
		return rows, others, nil
	}
	stamps, err := query(ctx, tx, scanStamp, selectStamps, b.row)
	if err == nil && len(stamps) != b.Documents {
		err = &CorruptError{Path: s.path, Err: fmt.Errorf("%d of %d documents are there", len(stamps), b.Documents)}
	}
	slices.SortFunc(stamps, func(a, b Stamp) int { return cmp.Compare(a.Row, b.Row) })
	rows, others = rows[:0], nil
	for _, stamp := range stamps {
		rows = append(rows, stamp.Row)
		if !stamp.isOf(readers) {
			others = append(others, stamp)
		}
	}
	return rows, others, err
}

func scanHead(r *sql.Rows) (h blockHead, err error) {
	err = r.Scan(&h.number, &h.documents, &h.crc)
	return h, err
}

// readBlocks returns the blocks with these heads, except damaged ones, and reads only those that
// have changed.
func (s *database) readBlocks(ctx context.Context, tx *sql.Tx, base int64, heads []blockHead, before listing) (listing, error) {
	now := listing{readers: before.readers, blocks: make(map[int64]block, len(heads))}
	var other []int64
	for _, head := range heads {
		if block, ok := before.blocks[head.number]; ok && block.blockHead == head {
			now.blocks[head.number] = block
			continue
		}
		other = append(other, head.number)
	}
	if len(other) == 0 {
		return now, nil
	}
	read := func(r *sql.Rows) (none struct{}, err error) {
		var b block
		var encoded sql.RawBytes
		if err := r.Scan(&b.number, &b.documents, &b.crc, &encoded); err != nil {
			return none, err
		}
		if b.decode(base, encoded, now.readers) {
			now.blocks[b.number] = b
		}
		return none, nil
	}
	if len(other) == len(heads) { // looking up each would take twice the time
		_, err := query(ctx, tx, read, allBlocks, base)
		return now, err
	}
	numbers, err := json.Marshal(other)
	if err == nil {
		_, err = query(ctx, tx, read, selectBlocks, string(numbers), base)
	}
	return now, err
}

// decode decodes the stamps of a block, and reports whether they are undamaged.
func (b *block) decode(base int64, encoded []byte, readers []Reader) bool {
	if blockChecksum(base, b.number, encoded) != b.crc || int64(len(encoded)) != b.documents*stampBytes {
		return false
	}
	b.places = make([]uint16, 0, b.documents)
	for ; len(encoded) > 0; encoded = encoded[stampBytes:] {
		stamp := Stamp{Row: int64(binary.LittleEndian.Uint64(encoded)), Hash: [32]byte(encoded[8:stampBytes])}
		if stamp.Row>>stampBits != b.number {
			return false
		}
		b.places = append(b.places, uint16(stamp.Row&(1<<stampBits-1)))
		if !stamp.isOf(readers) {
			b.others = append(b.others, stamp)
		}
	}
	return true
}

// isOf reports whether the document was read by one of the readers.
func (s *Stamp) isOf(readers []Reader) bool { return slices.Contains(readers, Reader(s.Hash[:8])) }
