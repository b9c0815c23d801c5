package redis_test

import (
	"errors"
	"strings"
	"testing"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

// Reads a value of 10 KB over loopback: the minimum cost of a hit.
func BenchmarkStoreGet(b *testing.B) {
	s := calm(b, redistest.Start(b).URL())
	keep(b, s, "k", strings.Repeat("v", 10<<10))
	b.SetBytes(10 << 10)
	b.ReportAllocs()
	for b.Loop() {
		if got, err := s.Get(b.Context(), "k"); err != nil || len(got) != 10<<10 {
			b.Fatal(len(got), err)
		}
	}
}

func BenchmarkStoreGetParallel(b *testing.B) {
	s := calm(b, redistest.Start(b).URL())
	keep(b, s, "k", strings.Repeat("v", 10<<10))
	b.SetBytes(10 << 10)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if got, err := s.Get(b.Context(), "k"); err != nil || len(got) != 10<<10 {
				b.Error(len(got), err)
			}
		}
	})
}

// Measures the cost per request of a Redis that is down.
func BenchmarkStoreSkipped(b *testing.B) {
	s := open(b, redis.Options{URL: "redis://127.0.0.1:1"}).Store("test")
	asked(b, s)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(b.Context(), "k"); !errors.Is(err, cache.ErrSkipped) {
			b.Fatal(err)
		}
	}
}
