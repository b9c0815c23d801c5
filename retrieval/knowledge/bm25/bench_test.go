package bm25_test

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sidenote/retrieval/knowledge/bm25"
)

// wordsOf draws words as they are distributed in scientific abstracts once stop
// words are gone and the rest is stemmed: Zipf's law, flat at the head.
func wordsOf(seed uint64) func() string {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(seed, 2)), 1.6, 150, 1_000_000)
	return func() string { return "w" + strconv.FormatUint(zipf.Uint64(), 36) }
}

// corpus makes n texts of about the given number of words, every sixth of them a
// stop word.
func corpus(n, words int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	word := wordsOf(1)
	texts := make([]string, n)
	var b strings.Builder
	for i := range texts {
		b.Reset()
		for w := range words/2 + r.IntN(words) {
			if w%6 == 0 {
				b.WriteString("of ")
				continue
			}
			b.WriteString(word())
			b.WriteByte(' ')
		}
		texts[i] = b.String()
	}
	return texts
}

// queries makes n questions of ten words, each as likely as in the texts.
func queries(n int) [][]bm25.Term {
	word := wordsOf(3)
	qs := make([][]bm25.Term, n)
	for i := range qs {
		for range 10 {
			qs[i] = append(qs[i], bm25.Term{Text: word(), Weight: 1})
		}
	}
	return qs
}

func BenchmarkBuild(b *testing.B) {
	texts := corpus(100_000, 120)
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := cpu(b)
	var x *bm25.Index
	for b.Loop() {
		x = build(texts)
	}
	b.ReportMetric(float64(len(texts)*b.N)/(cpu(b)-start).Seconds(), "chunks/cpu-s")
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(x.Len()), "heap-B/chunk")
	runtime.KeepAlive(texts)
}

func BenchmarkSearch(b *testing.B) {
	x := build(corpus(100_000, 120))
	qs := queries(500)
	for _, k := range []int{10, 50} {
		b.Run("best="+strconv.Itoa(k), func(b *testing.B) {
			b.ReportAllocs()
			start := cpu(b)
			for i := 0; b.Loop(); i++ {
				if _, err := x.Search(b.Context(), qs[i%len(qs)], k); err != nil {
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
