package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// A Segment is an index file of some documents of a base. The store does not interpret it. A
// document that was replaced or deleted since is dead: its row is in Covers but no longer in the
// base.
type Segment struct {
	Base   string
	Name   string
	Path   string  // of the file, to be memory-mapped; "" in memory
	Size   int64   // bytes
	Covers []int64 // rows of documents, ascending

	checksum uint32 // of the file and Covers
}

const selectSegment = "SELECT b.id, s.name, s.size, s.crc, s.covers FROM segment s JOIN base b ON b.row = s.base "

// errDamaged means that a file is not as it was written.
var errDamaged = errors.New("does not match its checksum")

// PutSegment writes a segment for documents with the given rows. It replaces the segments named in
// replaces, which are removed in the same transaction. The file is complete and on disk before the
// database refers to it. The error is ErrNotFound if the base or a segment to replace does not
// exist.
func (s *Store) PutSegment(ctx context.Context, base string, image []byte, covers []int64, replaces ...string) (Segment, error) {
	return s.putSegment(ctx, base, image, nil, covers, replaces)
}

// putSegment is PutSegment with the image of the segment's vector file, nil for none.
func (s *Store) putSegment(ctx context.Context, base string, image, vectors []byte, covers []int64, replaces []string) (Segment, error) {
	if s.writer == nil {
		return Segment{}, ErrReadOnly
	}
	if err := validBase(base); err != nil { // it becomes part of a file name
		return Segment{}, fmt.Errorf("write segment of knowledge %s: %w", base, ErrNotFound)
	}
	covers = slices.Compact(slices.Sorted(slices.Values(covers)))
	list := encodeRows(covers)
	seg := Segment{
		Base: base, Name: base + "-" + strings.ToLower(rand.Text()) + imageSuffix, Size: int64(len(image)),
		Covers: covers, checksum: checksum(image) ^ checksum(list),
	}
	seg.Path = s.images.path(seg.Name)
	if err := s.images.write(seg.Name, image); err != nil {
		return Segment{}, s.wrap("write segment of knowledge "+base, full(err))
	}
	files := []string{seg.Name}
	var v VectorFile
	var err error
	if vectors != nil {
		if v, err = VectorFilesOf(s).write(base, seg.Name, vectors); err == nil {
			files = append(files, v.Name)
		}
	}
	if err == nil {
		err = s.writeBase(ctx, "write segment of", base, func(c *change, b *baseRow) error {
			if err := c.forget(replaces, b.row); err != nil {
				return err
			}
			s.step("insert segment")
			if _, err := c.tx.ExecContext(c.ctx, "INSERT INTO segment (base, name, size, crc, covers) VALUES (?, ?, ?, ?, ?)",
				b.row, seg.Name, seg.Size, int64(seg.checksum), list); err != nil {
				return err
			}
			if vectors != nil {
				if err := c.insertVectors(base, v); err != nil {
					return err
				}
			}
			_, err := c.note(base)
			return err
		})
	}
	if err != nil {
		s.discard(files)
		return Segment{}, err
	}
	s.discard(replaces)
	return seg, nil
}

// DropSegments removes segments and their files, or returns ErrNotFound.
func (s *Store) DropSegments(ctx context.Context, base string, names ...string) error {
	err := s.writeBase(ctx, "drop segment "+strings.Join(names, ", ")+" of", base, func(c *change, b *baseRow) error {
		if err := c.forget(names, b.row); err != nil {
			return err
		}
		_, err := c.note(base)
		return err
	})
	if err == nil {
		s.discard(names)
	}
	return err
}

// Image returns the content of a segment's file and checks it. The error is a *SegmentError if it
// is missing or damaged, and ErrNotFound if the segment was dropped meanwhile.
func (s *reads) Image(ctx context.Context, seg Segment) ([]byte, error) {
	image, err := s.images.read(seg.Name)
	if err == nil && (int64(len(image)) != seg.Size || checksum(image)^checksum(encodeRows(seg.Covers)) != seg.checksum) {
		err = errDamaged
	}
	if err == nil {
		return image, nil
	}
	now, e := query(ctx, s.readers, scanString, "SELECT name FROM segment WHERE name = ?", seg.Name)
	switch {
	case e != nil:
		err = e
	case len(now) == 0:
		err = ErrNotFound
	default:
		return nil, &SegmentError{Base: seg.Base, Name: seg.Name, Err: err}
	}
	return nil, s.wrap("read segment "+seg.Name, err)
}

// scanSegment leaves Covers nil if the list is damaged.
func (s *reads) scanSegment(r *sql.Rows) (seg Segment, err error) {
	var crc int64
	var list sql.RawBytes
	err = r.Scan(&seg.Base, &seg.Name, &seg.Size, &crc, &list)
	seg.checksum = uint32(crc)
	seg.Path = s.images.path(seg.Name)
	seg.Covers = decodeRows(list)
	return seg, err
}

// forget removes segments of a base from the database.
func (c *change) forget(names []string, base int64) error {
	for _, name := range names {
		files, err := query(c.ctx, c.tx, scanString, "SELECT name FROM segment_vectors WHERE segment = (SELECT row FROM segment WHERE name = ?)", name)
		if err != nil {
			return err
		}
		c.unnamed = append(c.unnamed, files...)
		c.s.step("forget segment")
		r, err := c.tx.ExecContext(c.ctx, "DELETE FROM segment WHERE name = ? AND base = ?", name, base)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); n == 0 || err != nil {
			return cmp.Or(err, fmt.Errorf("segment %s: %w", name, ErrNotFound))
		}
	}
	return nil
}

// discard removes files that the database does not refer to. If that fails, the next Open removes
// them.
func (s *database) discard(names []string) {
	for _, name := range names {
		_ = s.images.remove(name)
	}
}

// removeOrphans removes files that the database does not refer to, such as those of a process that
// died before it could.
func (s *database) removeOrphans(ctx context.Context) error {
	files, err := s.images.list()
	if err != nil {
		return fmt.Errorf("list segments: %w", err)
	}
	named, err := query(ctx, s.readers, scanString, "SELECT name FROM segment UNION ALL SELECT name FROM segment_vectors")
	if err != nil {
		return s.wrap("list segments", err)
	}
	for _, name := range files {
		if slices.Contains(named, name) {
			continue
		}
		if err := s.images.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove segment that is not used: %w", err)
		}
	}
	return nil
}

// encodeRows encodes ascending rows as varint differences.
func encodeRows(rows []int64) []byte {
	out, last := make([]byte, 0, 2*len(rows)), int64(0)
	for _, r := range rows {
		out = binary.AppendUvarint(out, uint64(r-last))
		last = r
	}
	return out
}

// decodeRows reverses encodeRows; it returns nil for invalid input.
func decodeRows(list []byte) []int64 {
	out, last := make([]int64, 0, len(list)), int64(0)
	for len(list) > 0 {
		d, n := binary.Uvarint(list)
		if n <= 0 || d == 0 || last+int64(d) < last {
			return nil
		}
		last += int64(d)
		out = append(out, last)
		list = list[n:]
	}
	return out
}
