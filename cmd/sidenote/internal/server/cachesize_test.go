package server

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sidenote/cache"
	"sidenote/retrieval"
)

// questionsIn64MiB is the minimum number of questions that 64 MiB of cache.memory hold.
const questionsIn64MiB = 20_000

// cache.memory holds as many questions as documented, with 50 candidates each, and uses about the
// configured memory.
func TestCacheMemoryHolds(t *testing.T) {
	mib := 2
	if os.Getenv("SIDENOTE_LONG") != "" {
		mib = 64
	}
	root := t.TempDir()
	for i := range 240 {
		var text strings.Builder
		fmt.Fprintf(&text, "# Part %d of the handbook\n\n", i)
		for n := range 40 {
			fmt.Fprintf(&text, "Rule %d of part %d says what is to be done in office %d on a day like %d. ", n, i, i*n%97, i*i%89)
		}
		write(t, filepath.Join(root, fmt.Sprintf("handbook/part-%02d/page-number-%03d.md", i%20, i)), text.String())
	}
	e, cfg := engineOf(t, fmt.Sprintf("upstream: http://127.0.0.1:9\ncache: {memory: %dMiB}\nknowledge: {handbook: %q}\npolicies: {default: {retrieval: {deadline: 10s}}}\n", mib, root))
	if err := e.Bases.Index(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	tenant, _ := cfg.Tenant("default")
	hit := func(i int) bool {
		res, err := e.Rewriter.Retriever.Retrieve(t.Context(), retrieval.Query{
			Tenant: "default", Bases: []retrieval.Ref{{Knowledge: "handbook"}}, Settings: tenant.Rewrite.Search,
			Text: fmt.Sprintf("What is the rule for office %d on day %d, asked for the %dth time?", i%97, i%89, i),
		})
		if err != nil || res.Partial || len(res.Sources)+res.Excluded.Len() < 50 || len(res.Sources) > 0 && res.Sources[0].Text == "" {
			t.Fatalf("question %d: %d sources, %d fell, %v", i, len(res.Sources), res.Excluded.Len(), err)
		}
		return res.Cache == retrieval.CacheHit
	}
	hit(-1)
	before := heap()
	questions, hits := questionsIn64MiB*mib/64, 0
	for i := range questions {
		hit(i)
	}
	held, counted := heap()-before, e.caches.Bytes(cache.Candidates)+e.caches.Bytes(cache.Selected)
	for i := range questions {
		if hit(i) {
			hits++
		}
	}
	t.Logf("%d of %d questions held in %d MiB, counted %d KiB, heap %d KiB", hits, questions, mib, counted>>10, held>>10)
	if hits < questions {
		t.Errorf("%d MiB hold %d questions of %d", mib, hits, questions)
	}
	if most := int64(mib+8) << 20; held > most { // other memory per question is bounded
		t.Errorf("the heap grew by %d KiB, want at most %d", held>>10, most>>10)
	}
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // collect what finalizers kept alive
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
