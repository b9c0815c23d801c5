package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/store"
)

func TestMain(m *testing.M) { knowledgetest.Main(m, children()) }

// runChild runs a child process to its end and returns its output.
func runChild(t *testing.T, what string, env ...string) (string, error) {
	t.Helper()
	cmd := knowledgetest.Child(t, what, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && stderr.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return string(out), err
}

func open(t *testing.T, dir string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func follow(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.OpenReadOnly(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func create(t *testing.T, s *store.Store, bases ...string) {
	t.Helper()
	for _, b := range bases {
		if err := s.CreateBase(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

func put(t *testing.T, s *store.Store, base string, docs ...store.Document) []int64 {
	t.Helper()
	rows, err := s.Put(t.Context(), base, docs)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// doc returns a document that depends only on its id and revision. It has more chunks in later
// revisions.
func doc(id string, revision int) store.Document {
	text := fmt.Sprintf("%s at revision %d", id, revision)
	d := store.Document{
		ID: id, Name: "Name of " + text, Kind: "markdown", Source: "/docs/" + id, Size: int64(1000 + revision),
		Modified: time.Unix(0, int64(1e18)+int64(revision)), Mark: int64(revision), Hash: sha256.Sum256([]byte(text)), Sum: sumOf(text),
		Attributes: map[string]any{"revision": float64(revision), "draft": revision%2 == 0, "owner": "<a&b>", "tags": []string{"x", id}},
	}
	for i := range revision%3 + 1 {
		d.Chunks = append(d.Chunks, store.Chunk{
			Section: fmt.Sprintf("Part %d", i), Text: strings.Repeat(fmt.Sprintf("%s, chunk %d. ", text, i), 40),
			Tokens: map[string]int{"o200k_base": 100 + i, "cl100k_base": 110 + revision},
		})
	}
	return d
}

func sumOf(text string) chunk.Sum { return chunk.Sum(sha256.Sum256([]byte("sum of " + text))) }

// total returns the expected Base for these documents.
func total(id string, docs ...store.Document) store.Base {
	b := store.Base{ID: id, Documents: len(docs)}
	for _, d := range docs {
		b.Chunks += len(d.Chunks)
		b.Sum = b.Sum.Add(d.Sum)
		for _, c := range d.Chunks {
			b.Bytes += int64(len(c.Text))
		}
	}
	return b
}

// all collects a sequence.
func all[T any](t *testing.T, seq iter.Seq2[T, error]) (out []T) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// segments returns the segments of a base, none if there is no such base, and the rows of the
// documents that no segment covers.
func segments(ctx context.Context, s *store.Store, base string) (list []store.Segment, uncovered []int64, err error) {
	v, err := s.View(ctx, base)
	for _, row := range v.Rows {
		if !slices.ContainsFunc(v.Segments, func(seg store.Segment) bool { return slices.Contains(seg.Covers, row) }) {
			uncovered = append(uncovered, row)
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return v.Segments, uncovered, err
}

// entries returns the documents of a base with their chunks, by id.
func entries(ctx context.Context, s *store.Store, base string) ([]store.Entry, error) {
	v, err := s.View(ctx, base)
	if err != nil {
		return nil, err
	}
	return s.Entries(ctx, base, v.Rows)
}

// wide returns n documents with the given number of chunks of about 1,500 bytes each.
func wide(prefix string, n, chunks int) []store.Document {
	docs := make([]store.Document, n)
	for i := range docs {
		d := store.Document{ID: fmt.Sprintf("%s%06d.md", prefix, i), Name: "A title of some length"}
		binary.LittleEndian.PutUint64(d.Sum[:], uint64(i))
		for c := range chunks {
			d.Chunks = append(d.Chunks, store.Chunk{
				Section: "Handbook > Leave", Text: strings.Repeat(fmt.Sprintf("chunk %d of document %d says little. ", c, i), 40),
				Tokens: map[string]int{"o200k_base": 350},
			})
		}
		docs[i] = d
	}
	return docs
}
