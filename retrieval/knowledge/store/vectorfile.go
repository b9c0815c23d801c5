package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
)

// A VectorFile is an index file of the vectors of the texts in a segment. It is deleted with the
// segment. The store does not interpret it; losing it costs only time.
type VectorFile struct {
	Segment string // name of the segment
	Name    string
	Path    string // to be memory-mapped; "" in memory
	Size    int64  // bytes

	checksum uint32
}

// VectorFiles are the vector files of a store. A segment has at most one.
type VectorFiles struct{ s *Store }

// VectorFilesOf returns the vector files of a store.
func VectorFilesOf(s *Store) VectorFiles { return VectorFiles{s} }

const (
	ofSegment         = "WHERE segment = (SELECT s.row FROM segment s JOIN base b ON b.row = s.base WHERE s.name = ? AND b.id = ?)"
	selectVectorFiles = "SELECT s.name, v.name, v.size, v.crc FROM segment_vectors v JOIN segment s ON s.row = v.segment JOIN base b ON b.row = s.base WHERE b.id = ?"
	deleteVectorFile  = "DELETE FROM segment_vectors " + ofSegment + " RETURNING name"
	insertVectorFile  = "INSERT INTO segment_vectors SELECT s.row, ?, ?, ? FROM segment s JOIN base b ON b.row = s.base WHERE s.name = ? AND b.id = ?"
)

// Of returns the vector files of a base, by segment name.
func (f VectorFiles) Of(ctx context.Context, base string) (map[string]VectorFile, error) {
	files, err := f.s.vectorFiles(ctx, f.s.readers, base)
	return files, f.s.wrap("list vectors of knowledge "+base, err)
}

func (s *reads) vectorFiles(ctx context.Context, from queryer, base string) (map[string]VectorFile, error) {
	list, err := query(ctx, from, func(r *sql.Rows) (v VectorFile, err error) {
		var crc int64
		err = r.Scan(&v.Segment, &v.Name, &v.Size, &crc)
		v.Path, v.checksum = s.images.path(v.Name), uint32(crc)
		return v, err
	}, selectVectorFiles, base)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	files := make(map[string]VectorFile, len(list))
	for _, v := range list {
		files[v.Segment] = v
	}
	return files, nil
}

// Put writes the vector file of a segment, replacing the existing one. The file is complete and on
// disk before the database refers to it. The error is ErrNotFound if there is no such segment.
func (f VectorFiles) Put(ctx context.Context, base, segment string, image []byte) (v VectorFile, err error) {
	if f.s.writer == nil {
		return v, ErrReadOnly
	}
	if err := validBase(base); err != nil { // it becomes part of the file name
		return v, fmt.Errorf("write vectors of knowledge %s: %w", base, ErrNotFound)
	}
	if v, err = f.write(base, segment, image); err != nil {
		return v, err
	}
	var before []string
	err = f.s.writeBase(ctx, "write vectors of", base, func(c *change, _ *baseRow) (err error) {
		if before, err = query(c.ctx, c.tx, scanString, deleteVectorFile, segment, base); err != nil {
			return err
		}
		if err := c.insertVectors(base, v); err != nil {
			return err
		}
		_, err = c.note(base)
		return err
	})
	if err != nil {
		before = []string{v.Name}
	}
	f.s.discard(before)
	return v, err
}

// PutSegment is Store.PutSegment of a segment and its vector file, in one transaction.
func (f VectorFiles) PutSegment(ctx context.Context, base string, image, vectors []byte, covers []int64, replaces ...string) (Segment, error) {
	return f.s.putSegment(ctx, base, image, vectors, covers, replaces)
}

// write writes a vector file that the database does not refer to yet.
func (f VectorFiles) write(base, segment string, image []byte) (VectorFile, error) {
	name := base + "-" + strings.ToLower(rand.Text()) + vectorsSuffix
	if err := f.s.images.write(name, image); err != nil {
		return VectorFile{}, f.s.wrap("write vectors of knowledge "+base, full(err))
	}
	return VectorFile{Segment: segment, Name: name, Path: f.s.images.path(name), Size: int64(len(image)), checksum: checksum(image)}, nil
}

// insertVectors adds a vector file to the database.
func (c *change) insertVectors(base string, v VectorFile) error {
	c.s.step("insert vectors")
	r, err := c.tx.ExecContext(c.ctx, insertVectorFile, v.Name, v.Size, int64(v.checksum), v.Segment, base)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); n == 0 || err != nil {
		return fmt.Errorf("segment %s: %w", v.Segment, ErrNotFound)
	}
	return nil
}

// Image returns the content of a vector file and checks it.
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
