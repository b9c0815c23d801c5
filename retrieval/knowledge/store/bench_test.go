package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"sidenote/retrieval/knowledge/store"
)

// fill makes a base of 100,000 chunks in documents of ten.
func fill(b *testing.B, dir string) (rows []int64) {
	b.Helper()
	s, err := store.Open(b.Context(), dir, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.CreateBase(b.Context(), "kb"); err != nil {
		b.Fatal(err)
	}
	for i := range 100 {
		r, err := s.Put(b.Context(), "kb", wide(fmt.Sprintf("%03d/", i), 100, 10))
		if err != nil {
			b.Fatal(err)
		}
		rows = append(rows, r...)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return rows
}

// Transactions of 100 documents of ten chunks of 1,500 bytes.
func BenchmarkPut(b *testing.B) {
	s, err := store.Open(b.Context(), b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.CreateBase(b.Context(), "kb"); err != nil {
		b.Fatal(err)
	}
	docs := wide("", 100, 10)
	n := 0
	for b.Loop() {
		n++
		for i := range docs {
			docs[i].ID = fmt.Sprintf("%d/%d", n, i)
		}
		if _, err := s.Put(b.Context(), "kb", docs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n*1000)/b.Elapsed().Seconds(), "chunks/s")
}

func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	rows := fill(b, dir)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			s, err := store.Open(b.Context(), dir, store.Options{})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	s, err := store.Open(b.Context(), dir, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	b.Run("50 chunks", func(b *testing.B) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		ask := make([]store.Row, 50)
		for b.Loop() {
			for i := range ask {
				ask[i] = store.RowOf(rows[rand.IntN(len(rows))], rand.IntN(10))
			}
			if found, err := s.Chunks(ctx, "kb", ask); err != nil || len(found) < 45 {
				b.Fatal(len(found), err)
			}
		}
	})
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for _, err := range s.Scan(b.Context(), "kb") {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != 100_000 {
				b.Fatal(n)
			}
		}
	})
	b.Run("version", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Version(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
