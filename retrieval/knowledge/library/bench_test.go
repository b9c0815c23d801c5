//go:build unix

package library_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
)

// All figures are processor time of the whole process, including garbage collection.

// wordsOf draws words with the distribution of scientific abstracts, as in the benchmarks of bm25.
func wordsOf(seed uint64) func() string {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(seed, 2)), 1.6, 150, 1_000_000)
	return func() string { return "w" + strconv.FormatUint(zipf.Uint64(), 36) }
}

// sections is how many chunks a document of a corpus has.
const sections = 5

// markdown returns a document of n sections of about 140 words, each of which is a chunk.
func markdown(n int, word func() string, r *rand.Rand) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Document %d about %s\n\n", n, word())
	for s := range sections {
		fmt.Fprintf(&b, "## Part %d of %s\n\n", s, word())
		for w := range 110 + r.IntN(60) {
			if w%6 == 0 {
				b.WriteString("of ")
				continue
			}
			b.WriteString(word())
			b.WriteByte(' ')
		}
		b.WriteString("\n\n")
	}
	return b.String()
}

// corpus writes documents with the given number of chunks in total below a folder.
func corpus(b *testing.B, dir string, chunks int) {
	b.Helper()
	word, r := wordsOf(1), rand.New(rand.NewPCG(1, 2))
	for n := range chunks / sections {
		sub := filepath.Join(dir, fmt.Sprintf("%03d", n/500))
		if n%500 == 0 {
			if err := os.MkdirAll(sub, 0o755); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("d%06d.md", n)), []byte(markdown(n, word, r)), 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

// sizes returns the numbers of chunks to measure; SIDENOTE_LONG=1 adds a million, which take
// minutes to write.
func sizes() []int {
	if os.Getenv("SIDENOTE_LONG") != "" {
		return []int{100_000, 1_000_000}
	}
	return []int{100_000}
}

func benchDeps() knowledge.Deps { return knowledge.Deps{Counter: knowledgetest.FourBytes{}} }

func open(b *testing.B, dir string) *library.Library {
	b.Helper()
	l, err := library.OpenLoaded(b.Context(), dir, benchDeps(), library.Options{Trouble: func(t library.Trouble) { b.Errorf("%+v", t) }})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func benchQueries() []retrieval.Query {
	word := wordsOf(3)
	qs := make([]retrieval.Query, 500)
	for i := range qs {
		var text []string
		for range 10 {
			text = append(text, word())
		}
		qs[i] = retrieval.Query{Text: strings.Join(text, " "), Settings: retrieval.DefaultSettings()}
	}
	return qs
}

// BenchmarkLibrary measures the life of a base on disk: read a folder, read it again without a
// change, open it, search it, and change a document.
func BenchmarkLibrary(b *testing.B) {
	for _, n := range sizes() {
		b.Run("chunks="+strconv.Itoa(n), func(b *testing.B) {
			dir, files := b.TempDir(), b.TempDir()
			corpus(b, files, n)
			aged(b, files)
			folder := folder.Folder{ID: "kb", Path: files}
			b.Run("sync", func(b *testing.B) { benchmarkSync(b, dir, folder) })
			b.Run("again", func(b *testing.B) { benchmarkAgain(b, dir, folder) })
			b.Run("open", func(b *testing.B) { benchmarkOpen(b, dir) })
			l := open(b, dir)
			defer func() { _ = l.Close() }()
			benchmarkQuery(b, l)
			b.Run("put", func(b *testing.B) {
				knowledgetest.Measure(b, func(i int) {
					if _, err := l.Put(b.Context(), "kb", chunk.Document{ID: "new", Text: fmt.Sprint("of a document ", i, time.Now())}); err != nil {
						b.Fatal(err)
					}
				})
			})
		})
	}
}

// aged makes files old enough to be recognized by their times.
func aged(b *testing.B, dir string) {
	then := time.Now().Add(-time.Hour)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, then, then)
	})
	if err != nil {
		b.Fatal(err)
	}
}

// benchmarkSync leaves the last base in dir.
func benchmarkSync(b *testing.B, dir string, folder folder.Folder) {
	chunks, start := 0, knowledgetest.CPU(b)
	wall := time.Now()
	for b.Loop() {
		if err := os.RemoveAll(dir); err != nil {
			b.Fatal(err)
		}
		l := open(b, dir)
		report, err := l.Sync(b.Context(), folder, nil)
		if err != nil {
			b.Fatal(err)
		}
		chunks = report.Chunks
		l.Quiet()
		_ = l.Close()
	}
	b.ReportMetric(float64(chunks*b.N)/(knowledgetest.CPU(b)-start).Seconds(), "chunks/cpu-s")
	b.ReportMetric(float64(chunks*b.N)/time.Since(wall).Seconds(), "chunks/s")
	b.ReportMetric(float64(chunks), "chunks")
}

func benchmarkAgain(b *testing.B, dir string, folder folder.Folder) {
	l := open(b, dir)
	defer func() { _ = l.Close() }()
	knowledgetest.Measure(b, func(int) {
		if _, err := l.Sync(b.Context(), folder, nil); err != nil {
			b.Fatal(err)
		}
	})
}

// benchmarkOpen measures the time from a folder in the page cache to the first answer.
func benchmarkOpen(b *testing.B, dir string) {
	qs := benchQueries()
	knowledgetest.Measure(b, func(i int) {
		l := open(b, dir)
		if _, err := l.Base("kb").Retrieve(b.Context(), qs[i%len(qs)]); err != nil {
			b.Fatal(err)
		}
		_ = l.Close()
	})
	runtime.GC()
}

func benchmarkQuery(b *testing.B, l *library.Library) {
	var with runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&with)
	base, qs := l.Base("kb"), benchQueries()
	for _, k := range []int{10, retrieval.DefaultSettings().NumCandidates} {
		b.Run(fmt.Sprintf("query/best=%d", k), func(b *testing.B) {
			b.ReportAllocs()
			knowledgetest.Measure(b, func(i int) {
				q := qs[i%len(qs)]
				q.Settings.NumCandidates = k
				if _, err := base.Retrieve(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			})
			b.ReportMetric(float64(with.HeapAlloc)/float64(base.Content().Chunks()), "heap-B/chunk")
		})
	}
}
