package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"iter"
	"slices"
)

// How tests look at what a store holds, without the ways that they test.

const (
	// The rows come as a JSON list, so that one statement does for any number.
	chunksQuery = chunkColumns + "FROM json_each(?) j CROSS JOIN chunk c ON c.row = j.value CROSS JOIN document d ON d.row = c.row >> 20 " +
		"WHERE d.base = (SELECT row FROM base WHERE id = ?)"
	scanQuery = chunkColumns + "FROM document d CROSS JOIN chunk c ON " + ofDocument +
		"WHERE d.base = ? AND d.id > ? AND d.id <= ? ORDER BY d.id, c.row"
	pageChunks = 2048
)

// Chunks returns the chunks of a base with the given rows, in no certain order and
// without those that are gone or another base's.
func (s *Store) Chunks(ctx context.Context, base string, rows []Row) ([]Found, error) {
	list, err := json.Marshal(rows)
	if err != nil {
		return nil, err
	}
	r, err := s.readers.QueryContext(ctx, chunksQuery, string(list), base)
	if err != nil {
		return nil, s.wrap("read chunks of knowledge "+base, err)
	}
	found, err := collect(r, s.scanFound())
	return found, s.wrap("read chunks of knowledge "+base, err)
}

// Scan goes through the chunks of a base, by document id, then by place. It may be
// written meanwhile: of each document come all chunks or none. An error,
// ErrNotFound without the base, comes last.
func (s *Store) Scan(ctx context.Context, base string) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		b, err := s.base(ctx, s.readers, base)
		for after, last := "", ""; err == nil; after = last {
			if last, err = s.page(ctx, b.row, after); err != nil || last == "" {
				break
			}
			var chunks []Found
			chunks, err = query(ctx, s.readers, s.scanFound(), scanQuery, b.row, after, last)
			for _, c := range chunks {
				if !yield(c, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(Found{}, s.wrap("read knowledge "+base, err))
		}
	}
}

// page returns the id of the last document of a page that starts after one; "" if
// none is left. A document larger than a page is one by itself.
func (s *Store) page(ctx context.Context, base int64, after string) (last string, err error) {
	type size struct {
		id     string
		chunks int
	}
	sizes, err := query(ctx, s.readers, func(r *sql.Rows) (v size, err error) {
		err = r.Scan(&v.id, &v.chunks)
		return v, err
	}, "SELECT id, chunks FROM document WHERE base = ? AND id > ? ORDER BY id LIMIT ?", base, after, pageDocuments)
	chunks := 0
	for _, v := range sizes {
		if chunks += v.chunks; chunks > pageChunks && last != "" {
			break
		}
		last = v.id
	}
	return last, err
}

// Segments returns the segments of a base, oldest first. A list that is damaged
// comes as *SegmentError beside the others.
func (s *Store) Segments(ctx context.Context, base string) ([]Segment, error) {
	list, err := query(ctx, s.readers, s.scanSegment, selectSegment+"WHERE b.id = ? ORDER BY s.row", base)
	var damaged []error
	list = slices.DeleteFunc(list, func(seg Segment) bool {
		if seg.Covers == nil {
			damaged = append(damaged, &SegmentError{Base: seg.Base, Name: seg.Name, Err: errors.New("the list of its documents is damaged")})
		}
		return seg.Covers == nil
	})
	return list, s.wrap("list segments of knowledge "+base, cmp.Or(err, errors.Join(damaged...)))
}

// Uncovered returns the rows of the base's documents that no segment covers,
// ascending. The error is ErrNotFound if there is no such base.
func (s *Store) Uncovered(ctx context.Context, base string) ([]int64, error) {
	doing := "list documents of knowledge " + base
	b, err := s.base(ctx, s.readers, base)
	if err != nil {
		return nil, s.wrap(doing, err)
	}
	segments, err := s.Segments(ctx, base) // first: a segment that comes now is of documents that are listed
	var damaged *SegmentError
	if err != nil && !errors.As(err, &damaged) {
		return nil, err
	}
	alive, err := query(ctx, s.readers, scanRow, "SELECT row FROM document WHERE base = ?", b.row)
	slices.Sort(alive)
	for _, seg := range segments {
		i := 0
		alive = slices.DeleteFunc(alive, func(row int64) bool {
			for i < len(seg.Covers) && seg.Covers[i] < row {
				i++
			}
			return i < len(seg.Covers) && seg.Covers[i] == row
		})
	}
	return alive, s.wrap(doing, err)
}

func scanRow(r *sql.Rows) (v int64, err error) {
	err = r.Scan(&v)
	return v, err
}
