//go:build unix

package bm25_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/index/bm25"
)

// manyPostings returns texts of few distinct words, many of which have equal scores, and a
// question with enough postings to be searched by several goroutines.
func manyPostings(t *testing.T) (texts []string, question []bm25.Term) {
	t.Helper()
	before := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	words := strings.Fields("ant bee cat dog elk fox gnu hen ibis jay kiwi lark mole newt owl pig")
	r := rand.New(rand.NewPCG(1, 2))
	texts = make([]string, 48_000)
	for i := range texts {
		var s strings.Builder
		for range 12 {
			s.WriteString(words[r.IntN(len(words))] + " ")
		}
		texts[i] = s.String()
	}
	for i, w := range words[:12] {
		question = append(question, bm25.Term{Text: w, Weight: 1 + float64(i/4)})
	}
	return texts, question
}

// spread returns the index of texts in segments of a size; some are dead.
func spread(t *testing.T, texts []string, size int, compare bm25.Compare) *bm25.Index {
	t.Helper()
	var live []*bm25.Live
	for first := 0; first < len(texts); first += size {
		var dead bm25.Bitmap
		for i := range size {
			if (first+i)%7 == 0 {
				dead.Add(i)
			}
		}
		live = append(live, open(t, image(t, new(bm25.Builder), texts[first:first+size])).Live(dead))
	}
	return bm25.NewIndex(live, compare)
}

// Several goroutines find the same hits as one, in the same order, with the same scores.
func TestParallelSearchIsExact(t *testing.T) {
	const size = 6000
	texts, question := manyPostings(t)
	one, several := spread(t, texts, len(texts), bm25.InOrder), spread(t, texts, size, bm25.InOrder)
	if a, b := one.Searchers(question), several.Searchers(question); a != 1 || b != 4 {
		t.Fatalf("%d and %d goroutines search, want 1 and 4", a, b)
	}
	everyThird := func(n int) (allowed []bm25.Bitmap) { // in segments of n texts
		for i := range texts {
			if i%n == 0 {
				allowed = append(allowed, nil)
			}
			if i%3 == 0 {
				allowed[i/n].Add(i % n)
			}
		}
		return allowed
	}
	for _, allowed := range []bool{false, true} {
		for n := range 5 {
			for _, k := range []int{1, 10, 50, len(texts)} {
				var inOne, inSeveral []bm25.Bitmap
				if allowed {
					inOne, inSeveral = everyThird(len(texts)), everyThird(size)
				}
				want, err := one.Search(t.Context(), question[n:], k, inOne, nil)
				if err != nil {
					t.Fatal(err)
				}
				got, err := several.Search(t.Context(), question[n:], k, inSeveral, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i := range got {
					got[i].Ref = bm25.Ref{Text: got[i].Segment*size + got[i].Text}
				}
				if !slices.Equal(want, got) {
					t.Fatalf("terms from %d on, best %d (-one +several):\n%s", n, k, cmp.Diff(want, got))
				}
			}
		}
	}
}

// Failures in another goroutine are returned to the caller: a panic, and a truncated file, which
// would otherwise end the process.
func TestParallelSearchFails(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := bm25.OpenMapped(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	texts, question := manyPostings(t)
	for i := range texts {
		texts[i] = "ant bee cat dog elk fox gnu hen" // equal scores: the first two that a goroutine finds are compared
	}
	for what, fail := range map[string]func() int{
		"panic": func() int { panic("as it must") },
		"fault": func() int { return int(file.Bytes()[0]) },
	} {
		t.Run(what, func(t *testing.T) {
			failed := make(chan struct{})
			x := spread(t, texts, 6000, func(a, b bm25.Ref) int {
				if !strings.Contains(string(debug.Stack()), "(*parallel).help(") {
					<-failed
					return bm25.InOrder(a, b)
				}
				select {
				case <-failed:
				default:
					close(failed)
				}
				return fail()
			})
			if n := x.Searchers(question); n != 4 {
				t.Fatalf("%d goroutines search, want 4", n)
			}
			var panicked any
			_, err := func() ([]bm25.Hit, error) {
				defer func() { panicked = recover() }()
				return x.Search(t.Context(), question, 10, nil, nil)
			}()
			switch _, fault := errors.AsType[*bm25.MappedFaultError](err); {
			case what == "panic" && panicked != "as it must":
				t.Errorf("panic %v, error %v", panicked, err)
			case what == "fault" && !fault:
				t.Errorf("panic %v, error %v", panicked, err)
			}
		})
	}
	runtime.KeepAlive(file)
}
