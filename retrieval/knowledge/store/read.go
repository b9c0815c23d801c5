package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"sidenote/retrieval/knowledge/chunk"
)

const (
	selectColumns  = "SELECT d.row, d.base, d.id, d.name, d.kind, d.source, d.size, d.modified, d.mark, d.hash, d.attributes, d.sum, d.chunks, d.bytes, d.crc "
	selectDocument = selectColumns + "FROM document d "
	chunkColumns   = "SELECT c.row, c.section, c.text, c.tokens, c.crc "
	ofDocument     = "c.row >= d.row << 20 AND c.row < (d.row + 1) << 20 "
)

// pageDocuments is how many documents of a base are read at a time.
const pageDocuments = 512

// A found is a stored chunk.
type found struct {
	row int64
	Chunk
}

// A Known is what determines whether a document must be read again.
type Known struct {
	Row      int64
	ID       string
	Source   string
	Size     int64
	Modified time.Time
	Mark     int64
	Hash     [32]byte
}

// Document returns a document with its chunks, or ErrNotFound.
func (s *reads) Document(ctx context.Context, base, id string) (Entry, error) {
	var d Entry
	err := s.read(ctx, func(tx *sql.Tx) error { // read both parts from the same state
		list, err := query(ctx, tx, s.scanEntry, selectDocument+"JOIN base b ON b.row = d.base WHERE b.id = ? AND d.id = ?", base, id)
		if err == nil && len(list) == 0 {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		d = list[0]
		chunks, err := query(ctx, tx, s.scanFound, chunkColumns+"FROM document d JOIN chunk c ON "+ofDocument+"WHERE d.row = ? ORDER BY c.row", d.Row)
		if err == nil && len(chunks) != d.ChunkCount {
			err = &CorruptError{Path: s.path, Err: fmt.Errorf("%d of %d chunks are there", len(chunks), d.ChunkCount)}
		}
		for _, c := range chunks {
			d.Chunks = append(d.Chunks, c.Chunk)
		}
		return err
	})
	return d, s.wrap(fmt.Sprintf("document %q of knowledge %s", id, base), err)
}

// Known yields the documents of a base by id. The base may change meanwhile: each document is as
// it was at some time during the iteration. An error (ErrNotFound without the base) is yielded
// last.
func (s *reads) Known(ctx context.Context, base string) iter.Seq2[Known, error] {
	return func(yield func(Known, error) bool) {
		b, err := s.base(ctx, s.readers, base)
		for after := ""; err == nil; {
			var page []Known
			page, err = query(ctx, s.readers, s.scanKnown,
				selectDocument+"WHERE d.base = ? AND d.id > ? ORDER BY d.id LIMIT ?", b.row, after, pageDocuments)
			for _, k := range page {
				if !yield(k, nil) {
					return
				}
				after = k.ID
			}
			if err == nil && len(page) < pageDocuments {
				return
			}
		}
		yield(Known{}, s.wrap("list documents of knowledge "+base, err))
	}
}

// KnownOf returns the documents of a base that come from one of these sources, or ErrNotFound without
// the base. It reads the rows of all documents in the store, in the order of the file.
func (s *reads) KnownOf(ctx context.Context, base string, sources []string) (known []Known, err error) {
	list, err := json.Marshal(sources)
	if err != nil {
		return nil, err
	}
	err = s.readBase(ctx, "look for documents of", base, func(tx *sql.Tx, b baseRow) error {
		known, err = query(ctx, tx, s.scanKnown, selectColumns+"FROM document d NOT INDEXED "+
			"WHERE d.base = ? AND d.source IN (SELECT value FROM json_each(?))", b.row, string(list))
		return err
	})
	return known, err
}

func (s *reads) scanEntry(r *sql.Rows) (e Entry, err error) {
	stored, err := s.scanStored(r)
	if err != nil {
		return e, err
	}
	e = Entry{Row: stored.number, Document: *stored.Document, ChunkCount: stored.chunks, Bytes: stored.bytes}
	e.Attributes, err = chunk.DecodeAttributes(stored.attributes)
	return e, err
}

// A storedRow is a document's row as it is stored.
type storedRow struct {
	row
	number int64
}

// scanStored reads a document; its attributes stay encoded.
func (s *reads) scanStored(r *sql.Rows) (storedRow, error) {
	e := storedRow{row: row{Document: &Document{}}}
	var base, crc int64
	var hash, sum sql.RawBytes
	err := r.Scan(&e.number, &base, &e.ID, &e.Name, &e.Kind, &e.Source, &e.Size, &e.modified, &e.Mark, &hash, &e.attributes, &sum, &e.chunks, &e.bytes, &crc)
	if err != nil {
		return e, err
	}
	copy(e.Hash[:], hash)
	copy(e.Sum[:], sum)
	e.Modified = timeOf(e.modified)
	if e.checksum(e.number, base) != crc {
		return e, s.mismatch("document", e.number)
	}
	return e, nil
}

func (s *reads) scanKnown(r *sql.Rows) (Known, error) {
	e, err := s.scanStored(r)
	return Known{Row: e.number, ID: e.ID, Source: e.Source, Size: e.Size, Modified: e.Modified, Mark: e.Mark, Hash: e.Hash}, err
}

func (s *reads) scanFound(r *sql.Rows) (f found, err error) {
	var tokens string
	var crc int64
	if err := r.Scan(&f.row, &f.Section, &f.Text, &tokens, &crc); err != nil {
		return f, err
	}
	if chunkChecksum(f.row, f.Section, f.Text, tokens) != crc {
		return f, s.mismatch("chunk", f.row)
	}
	f.Tokens, err = decodeTokens(tokens)
	return f, err
}

func (s *database) mismatch(what string, row int64) error {
	return &CorruptError{Path: s.path, Err: fmt.Errorf("%s %d does not match its checksum", what, row)}
}

func timeOf(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}
