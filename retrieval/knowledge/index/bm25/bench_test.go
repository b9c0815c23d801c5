//go:build unix

package bm25_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// All figures are processor time of the whole process, including garbage collection.

func BenchmarkBuild(b *testing.B) {
	texts := corpus(100_000, 120)
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := knowledgetest.CPU(b)
	var x *bm25.Index
	for b.Loop() {
		x = build(b, texts)
	}
	b.ReportMetric(float64(len(texts)*b.N)/(knowledgetest.CPU(b)-start).Seconds(), "chunks/cpu-s")
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(x.Len()), "heap-B/chunk")
	runtime.KeepAlive(texts)
}

// BenchmarkIndex measures all operations on images in files: SIDENOTE_LONG=1 adds a million texts,
// which take half a minute to write.
func BenchmarkIndex(b *testing.B) {
	sizes := []int{10_000, 100_000}
	if os.Getenv("SIDENOTE_LONG") != "" {
		sizes = append(sizes, 1_000_000)
	}
	for _, n := range sizes {
		b.Run("texts="+strconv.Itoa(n), func(b *testing.B) {
			files := write(b, n)
			b.Run("open", func(b *testing.B) { benchmarkOpen(b, files) })
			live := openAll(b, files)
			b.Run("view", func(b *testing.B) { knowledgetest.Measure(b, func(int) { bm25.NewIndex(live, bm25.InOrder) }) })
			x := bm25.NewIndex(live, bm25.InOrder)
			benchmarkSearch(b, x, nil)
			every := make([]bm25.Bitmap, len(live)) // every third text
			for i := range every {
				for t := 0; t < bm25.MaxTexts; t += 3 {
					every[i].Add(t)
				}
			}
			b.Run("allowed", func(b *testing.B) { benchmarkSearch(b, x, every) })
			b.Run("sample", func(b *testing.B) { knowledgetest.Measure(b, func(i int) { x.Sample(float64(i%1000) / 1000) }) })
			b.Run("remove", func(b *testing.B) { knowledgetest.Measure(b, func(int) { live[0].Segment().Live(every[0]) }) })
			dead := make([]*bm25.Live, len(live))
			for i := range dead {
				dead[i] = live[i].Segment().Live(every[i])
			}
			b.Run("dead", func(b *testing.B) { benchmarkSearch(b, bm25.NewIndex(dead, bm25.InOrder), nil) })
		})
	}
}

// write writes the images of n texts to files and returns their names.
func write(b *testing.B, n int) (files []string) {
	b.Helper()
	var builder bm25.Builder
	dir, bytes, start := b.TempDir(), 0, knowledgetest.CPU(b)
	flush := func() {
		image, err := builder.Build()
		if err != nil {
			b.Fatal(err)
		}
		files = append(files, filepath.Join(dir, strconv.Itoa(len(files))))
		if err := os.WriteFile(files[len(files)-1], image, 0o600); err != nil {
			b.Fatal(err)
		}
		bytes += len(image)
	}
	for text := range stream(n, 120) {
		if builder.Len() == bm25.MaxTexts {
			flush()
		}
		if _, err := builder.Add(text); err != nil {
			b.Fatal(err)
		}
	}
	flush()
	b.Logf("%d texts: %d B each in %d images, made, built and written in %.1f s", n, bytes/n, len(files), (knowledgetest.CPU(b) - start).Seconds())
	return files
}

func openAll(b *testing.B, files []string) (live []*bm25.Live) {
	b.Helper()
	for _, name := range files {
		s, err := bm25.OpenFile(name)
		if err != nil {
			b.Fatal(err)
		}
		live = append(live, s.Live(nil))
	}
	return live
}

// benchmarkOpen measures the time from files in the page cache to the first answer.
func benchmarkOpen(b *testing.B, files []string) {
	qs := queries(500)
	knowledgetest.Measure(b, func(i int) { ask(b, bm25.NewIndex(openAll(b, files), bm25.InOrder), qs[i%len(qs)], 10, nil) })
	runtime.GC() // unmaps
}

func benchmarkSearch(b *testing.B, x *bm25.Index, allow []bm25.Bitmap) {
	qs := queries(500)
	for _, k := range []int{10, 50} {
		b.Run(fmt.Sprintf("best=%d", k), func(b *testing.B) {
			b.ReportAllocs()
			knowledgetest.Measure(b, func(i int) { ask(b, x, qs[i%len(qs)], k, allow) })
		})
	}
}

func ask(b *testing.B, x *bm25.Index, terms []bm25.Term, k int, allow []bm25.Bitmap) {
	if _, err := x.Search(b.Context(), terms, k, allow, nil); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkMerge merges segments of 10,000 texts: consecutive ones, like documents that were added
// in order of id, and interleaved ones.
func BenchmarkMerge(b *testing.B) {
	const parts = 10
	var live []*bm25.Live
	var builder bm25.Builder
	for text := range stream(100_000, 120) {
		if _, err := builder.Add(text); err != nil {
			b.Fatal(err)
		}
		if builder.Len() == 100_000/parts {
			live = append(live, open(b, image(b, &builder, nil)).Live(nil))
		}
	}
	for name, compare := range map[string]bm25.Compare{
		"apart":  bm25.InOrder,
		"inTurn": func(x, y bm25.Ref) int { return (x.Text*parts + x.Segment) - (y.Text*parts + y.Segment) },
	} {
		b.Run(name, func(b *testing.B) {
			start := knowledgetest.CPU(b)
			for b.Loop() {
				if _, _, err := bm25.Merge(live, compare); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(100_000*b.N)/(knowledgetest.CPU(b)-start).Seconds(), "chunks/cpu-s")
		})
	}
}
