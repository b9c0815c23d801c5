package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
)

// A VectorFile is a file that an index made of the vectors of the texts in a segment. It goes
// with the segment. What is in it is not the store's business; losing it costs time only.
type VectorFile struct {
	Segment string // name of the segment
	Name    string
	Path    string // to be mapped into memory; "" in memory
	Size    int64  // bytes

	checksum uint32
}

// VectorFiles are those of a store. A segment has one at most.
type VectorFiles struct{ s *Store }

// VectorFilesOf returns those of a store.
func VectorFilesOf(s *Store) VectorFiles { return VectorFiles{s} }

const (
	ofSegment         = "WHERE segment = (SELECT s.row FROM segment s JOIN base b ON b.row = s.base WHERE s.name = ? AND b.id = ?)"
	selectVectorFiles = "SELECT s.name, v.name, v.size, v.crc FROM segment_vectors v JOIN segment s ON s.row = v.segment JOIN base b ON b.row = s.base WHERE b.id = ?"
	deleteVectorFile  = "DELETE FROM segment_vectors " + ofSegment + " RETURNING name"
	insertVectorFile  = "INSERT INTO segment_vectors SELECT s.row, ?, ?, ? FROM segment s JOIN base b ON b.row = s.base WHERE s.name = ? AND b.id = ?"
)

// Of returns those of a base, by the names of segments.
func (f VectorFiles) Of(ctx context.Context, base string) (map[string]VectorFile, error) {
	list, err := query(ctx, f.s.readers, func(r *sql.Rows) (v VectorFile, err error) {
		var crc int64
		err = r.Scan(&v.Segment, &v.Name, &v.Size, &crc)
		v.Path, v.checksum = f.s.images.path(v.Name), uint32(crc)
		return v, err
	}, selectVectorFiles, base)
	files := make(map[string]VectorFile, len(list))
	for _, v := range list {
		files[v.Segment] = v
	}
	return files, f.s.wrap("list vectors of knowledge "+base, err)
}

// Put writes the file of a segment, in place of the one that it has. The file is on disk,
// whole, before the database names it. It is ErrNotFound without the segment.
func (f VectorFiles) Put(ctx context.Context, base, segment string, image []byte) (v VectorFile, err error) {
	if f.s.writer == nil {
		return v, ErrReadOnly
	}
	if err := validBase(base); err != nil { // it becomes part of the file's name
		return v, fmt.Errorf("write vectors of knowledge %s: %w", base, ErrNotFound)
	}
	name := base + "-" + strings.ToLower(rand.Text()) + vectorsSuffix
	if err := f.s.images.write(name, image); err != nil {
		return v, f.s.wrap("write vectors of knowledge "+base, full(err))
	}
	v = VectorFile{Segment: segment, Name: name, Path: f.s.images.path(name), Size: int64(len(image)), checksum: checksum(image)}
	var before []string
	err = f.s.writeBase(ctx, "write vectors of", base, func(c *change, _ *baseRow) (err error) {
		if before, err = query(c.ctx, c.tx, scanString, deleteVectorFile, segment, base); err != nil {
			return err
		}
		f.s.step("insert vectors")
		r, err := c.tx.ExecContext(c.ctx, insertVectorFile, v.Name, v.Size, int64(v.checksum), segment, base)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); n == 0 || err != nil {
			return fmt.Errorf("segment %s: %w", segment, ErrNotFound)
		}
		_, err = c.note(base)
		return err
	})
	if err != nil {
		before = []string{name}
	}
	f.s.discard(before)
	return v, err
}

// Image returns the content of a file in memory, checked.
func (f VectorFiles) Image(v VectorFile) ([]byte, error) {
	image, err := f.s.images.read(v.Name)
	if err == nil && (int64(len(image)) != v.Size || checksum(image) != v.checksum) {
		err = errDamaged
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", v.Name, err)
	}
	return image, nil
}
