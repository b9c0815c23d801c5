//go:build unix

package dense_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// BenchmarkSearch measures the processor time of a search among vectors of 384 dimensions in
// files, and their size: 20,000 vectors in plain runs; a hundred thousand and a million with
// SIDENOTE_LONG=1.
func BenchmarkSearch(b *testing.B) {
	sizes := []int{20_000}
	if os.Getenv("SIDENOTE_LONG") != "" {
		sizes = []int{100_000, 1_000_000}
	}
	const dimensions = 384
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir, before := b.TempDir(), heap()
			var live []*dense.Live
			var files int64
			hundredth := make([][]uint64, segmentsOf(n))
			for i := range segmentsOf(n) {
				name := filepath.Join(dir, fmt.Sprint(i))
				if err := os.WriteFile(name, image(b, clusters(uint64(i), min(perSegment, n-i*perSegment), dimensions), dimensions), 0o600); err != nil {
					b.Fatal(err)
				}
				f, err := bm25.OpenMapped(name)
				if err != nil {
					b.Fatal(err)
				}
				s, err := dense.Open(f.Bytes(), "space", f)
				if err != nil {
					b.Fatal(err)
				}
				live, files = append(live, s.Live(nil)), files+int64(len(f.Bytes()))
				hundredth[i] = make([]uint64, (perSegment+63)/64)
				for t := 0; t < perSegment; t += 100 {
					hundredth[i][t/64] |= 1 << (t % 64)
				}
			}
			x, questions := index(b, live...), clusters(1<<20, 100, dimensions)
			for name, allow := range map[string][][]uint64{"all": nil, "of a hundredth": hundredth} {
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					knowledgetest.Measure(b, func(i int) { search(b, x, questions[i%len(questions)], 50, allow) })
					b.ReportMetric(float64(files)/float64(n), "file-B/vector")
					b.ReportMetric(float64(heap()-before)/float64(n), "heap-B/vector")
				})
			}
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkBuild(b *testing.B) {
	const texts = 10_000
	kept := quantized(b, clusters(1, texts, 384))
	knowledgetest.Measure(b, func(int) {
		if _, err := dense.Build("space", texts, 384, func(text int) []byte { return kept[text] }); err != nil {
			b.Fatal(err)
		}
	})
}
