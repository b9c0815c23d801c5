package index_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
)

// most returns the peak size of heap objects while f ran, minus the size before.
func most(f func()) int64 {
	objects := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	before, peak := objects(), int64(0)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			peak = max(peak, objects())
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	f()
	close(stop)
	<-ended
	return peak - before
}

// texts returns documents with one text each.
func texts(n int, text func(i int) string) (list []index.Document) {
	for i := range n {
		list = append(list, index.Document{Row: int64(i), ID: fmt.Sprintf("d%06d", i), Name: "A name", Attributes: "{}", Chunks: []chunk.Chunk{{
			Section: "A section", Text: text(i), Counts: []chunk.Count{{Counter: "o200k", Tokens: 3}, {Counter: "cl100k", Tokens: 4}},
		}}})
	}
	return list
}

// Making and merging segments takes at most the estimated memory.
func TestSegmentMemory(t *testing.T) {
	sentence := strings.Repeat("The quick brown fox jumps over the lazy dog and sees nothing at all today. ", 20)
	part := 1
	if testing.Short() {
		part = 4
	}
	for name, documents := range map[string][]index.Document{
		"tiny":    texts(20_000/part, func(int) string { return "x" }),
		"short":   texts(10_000/part, func(i int) string { return fmt.Sprintf("valve %d in hall %d", i, i%97) }),
		"long":    texts(2_000/part, func(int) string { return sentence }),
		"numbers": texts(10_000/part, func(i int) string { return fmt.Sprintf("%x %x %x %x", i, i*7, i*31, i*127) }),
		"words": texts(500/part, func(i int) string {
			var b strings.Builder
			for n := range 150 {
				fmt.Fprintf(&b, "w%xx%x ", i, n)
			}
			return b.String()
		}),
	} {
		check := func(what string, thought int64, f func() error) {
			t.Helper()
			var err error
			took := most(func() { err = f() })
			t.Logf("%s: %s took %d KiB, thought %d (%.2f)", name, what, took>>10, thought>>10, float64(took)/float64(thought))
			if err != nil || took > thought+thought/6 { // some of it is garbage
				t.Errorf("%s: %s took %d KiB, which is more than %d: %v", name, what, took>>10, thought>>10, err)
			}
		}
		check("making it", index.SegmentMemory(documents), func() error {
			_, err := segmentsOf(documents, 0)
			return err
		})
		some, err := segmentsOf(documents, index.SegmentMemory(documents)/3)
		if err != nil || len(some) < 3 {
			t.Fatalf("%s: %d segments, %v", name, len(some), err)
		}
		check("merging", index.MergeMemory(some), func() error {
			_, _, err := index.Merge(some)
			return err
		})
	}
}

// segmentsOf returns segments of documents.
func segmentsOf(documents []index.Document, memory int64) (list index.Segments, err error) {
	w := index.Writer{Memory: memory, Emit: func(image []byte, rows []int64) error {
		s, err := index.Open(fmt.Sprintf("segment %d", len(list)), image, nil)
		if err == nil {
			list = append(list, s.Without(nil, nil))
		}
		return err
	}}
	for _, d := range documents {
		if err := w.Add(d); err != nil {
			return nil, err
		}
	}
	return list, w.Flush()
}

// A Writer with a memory limit makes more segments, and merges that need more memory than there is
// are not done.
func TestBoundedSegments(t *testing.T) {
	documents := texts(2_000, func(i int) string { return fmt.Sprintf("valve %d", i) })
	whole, err := segmentsOf(documents, 0)
	if err != nil || len(whole) != 1 {
		t.Errorf("%d segments without a bound, %v", len(whole), err)
	}
	few, err := segmentsOf(documents, index.SegmentMemory(documents[:150]))
	rows := map[int64]int{}
	for _, s := range few {
		for _, row := range s.Rows() {
			rows[row]++
		}
	}
	if err != nil || len(few) < 13 || len(few) > 15 || len(rows) != len(documents) {
		t.Fatalf("%d segments of %d documents, %v", len(few), len(rows), err)
	}
	if got := few.ToMerge(0); len(got) != len(few) {
		t.Errorf("%d of %d are merged without a bound", len(got), len(few))
	}
	if got := few.ToMerge(index.MergeMemory(few[:1])); got != nil {
		t.Errorf("%d are merged in the memory for one", len(got))
	}
	memory := index.MergeMemory(few) / 3
	if got := few.ToMerge(memory); len(got) < 2 || index.MergeMemory(got) > memory {
		t.Errorf("%d of %d are merged in a third of the memory", len(got), len(few))
	}
}
