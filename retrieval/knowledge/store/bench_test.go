package store_test

import (
	"fmt"
	"testing"

	"sidenote/retrieval/knowledge/store"
)

// fill makes a base of 100,000 chunks in documents of ten.
func fill(b *testing.B, dir string) {
	b.Helper()
	s, err := store.Open(b.Context(), dir, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.CreateBase(b.Context(), "kb"); err != nil {
		b.Fatal(err)
	}
	for i := range 100 {
		if _, err := s.Put(b.Context(), "kb", wide(fmt.Sprintf("%03d/", i), 100, 10)); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
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
	fill(b, dir)
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
	b.Run("version", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Version(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
