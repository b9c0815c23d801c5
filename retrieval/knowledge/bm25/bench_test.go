//go:build unix

package bm25_test

import (
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"sidenote/retrieval/knowledge/bm25"
)

func BenchmarkBuild(b *testing.B) {
	texts := corpus(100_000, 120)
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := cpu(b)
	var x *bm25.Index
	for b.Loop() {
		x = build(b, texts)
	}
	b.ReportMetric(float64(len(texts)*b.N)/(cpu(b)-start).Seconds(), "chunks/cpu-s")
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(x.Len()), "heap-B/chunk")
	runtime.KeepAlive(texts)
}

func BenchmarkSearch(b *testing.B) {
	x := build(b, corpus(100_000, 120))
	qs := queries(500)
	for _, k := range []int{10, 50} {
		b.Run("best="+strconv.Itoa(k), func(b *testing.B) {
			b.ReportAllocs()
			start := cpu(b)
			for i := 0; b.Loop(); i++ {
				if _, err := x.Search(b.Context(), qs[i%len(qs)], k, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpu(b)-start).Microseconds())/float64(b.N), "cpu-µs/query")
		})
	}
}

// cpu returns the processor time of the whole process, collector included.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
