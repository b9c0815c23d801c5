package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/cache"
	"sidenote/cache/cachetest"
	"sidenote/retrieval"
)

// Offsets and flags of the values in these tests.
const (
	compressed, encrypted = 1, 2 // flags

	flagsAt, digestAt, tenantAt = 3, 4, 37
	headSize                    = tenantAt + len("acme")
)

// A slot is a Store with one value for all keys.
type slot struct{ val []byte }

func (s *slot) Get(context.Context, string) ([]byte, error) { return s.val, nil }
func (s *slot) Set(_ context.Context, _ string, val []byte, _ time.Duration) error {
	s.val = val
	return nil
}

// A bench packs and unpacks single values.
type bench struct {
	slot  slot
	store *cache.CodecStore
}

func newBench(keys *cache.Keys) *bench {
	b := &bench{}
	b.store = cache.NewCodecStore(&b.slot, keys)
	return b
}

func (b *bench) pack(t testing.TB, val []byte) []byte {
	t.Helper()
	if err := b.store.Set(t.Context(), "k", val, time.Minute); err != nil {
		t.Fatal(err)
	}
	return b.slot.val
}

// unpack fails the test if the result is neither a value nor a Mismatch.
func (b *bench) unpack(t testing.TB, stored []byte) ([]byte, error) {
	t.Helper()
	b.slot.val = stored
	before := bytes.Clone(stored)
	val, err := b.store.Get(t.Context(), "k")
	if !bytes.Equal(before, stored) {
		t.Fatal("the stored value was changed")
	}
	if mismatch := cache.Mismatch(""); err != nil && (!errors.As(err, &mismatch) || val != nil) || err == nil && val == nil {
		t.Fatalf("got %d bytes, %v", len(val), err)
	}
	return val, err
}

var codecKey = cache.NewKey(cache.Candidates, question("q"))

// prose returns random words, some of them frequent, which compress like text.
func prose(size int) string {
	words := strings.Fields(`the of and to in a is that for it as was with be by on not he his but at are this have from or
		had an they which one you were all her she there would their we him been has when who will no more if out so up
		policy leave weeks parent employee contract notice period benefit manager request approve payment insurance holiday`)
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(words[int(float64(len(words))*random.Float64()*random.Float64())])
		b.WriteByte(" \n,."[random.IntN(40)/37])
	}
	return b.String()[:size]
}

// noise returns bytes that cannot be compressed.
func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// valueOf returns a plain value with size bytes of text.
func valueOf(size int) []byte {
	return cache.Encode(codecKey, retrieval.Result{
		Bases:   question("").Bases,
		Sources: []retrieval.Source{{Type: "rag", Knowledge: "docs", Doc: "leave.md", Name: "Leave", Text: prose(size), Score: 2.5}},
	})
}

// A form is a stored form of values.
type form struct {
	name  string
	keys  *cache.Keys
	flags byte
	value []byte // a plain value that is stored in this form
}

func forms(t testing.TB) []form {
	keys, small, large := keysOf(t, keyLine("k1", 1)), valueOf(100), valueOf(1000)
	return []form{
		{"as it is", nil, 0, small},
		{"compressed", nil, compressed, large},
		{"encrypted", keys, encrypted, small},
		{"compressed and encrypted", keys, compressed | encrypted, large},
	}
}

func TestCodecStoreRoundTrip(t *testing.T) {
	for _, f := range forms(t) {
		b := newBench(f.keys)
		before := bytes.Clone(f.value)
		stored := b.pack(t, f.value)
		if !bytes.Equal(f.value, before) {
			t.Errorf("%s: packing changed the value", f.name)
		}
		if stored[flagsAt] != f.flags || !bytes.Equal(stored[digestAt:headSize], f.value[digestAt:headSize]) {
			t.Errorf("%s: head %x", f.name, stored[:headSize])
		}
		if f.flags&compressed != 0 && len(stored) > len(f.value)*7/8 {
			t.Errorf("%s: %d bytes of %d", f.name, len(stored), len(f.value))
		}
		if f.flags&encrypted != 0 && (bytes.Contains(stored, []byte("docs")) || bytes.Equal(stored, b.pack(t, f.value))) {
			t.Errorf("%s: legible, or the same twice", f.name)
		}
		if got, err := b.unpack(t, stored); err != nil || !bytes.Equal(got, f.value) {
			t.Errorf("%s: got %d bytes, %v, want %d bytes", f.name, len(got), err, len(f.value))
		}
	}
}

func TestCodecStoreRoundTripOfAnything(t *testing.T) {
	plain, sealed := newBench(nil), newBench(keysOf(t, keyLine("k1", 1)))
	rapid.Check(t, func(rt *rapid.T) {
		q := question("q")
		q.Tenant = rapid.String().Draw(rt, "tenant")
		value := cache.Encode(cache.NewKey(cache.Selected, q), someResult.Draw(rt, "result"))
		for _, b := range []*bench{plain, sealed} {
			if got, err := b.unpack(t, b.pack(t, value)); err != nil || !bytes.Equal(got, value) {
				rt.Fatalf("got %d bytes, %v, want %d bytes", len(got), err, len(value))
			}
		}
	})
}

// Only a body that compresses well is stored compressed. One that compresses too well to be text
// is not, since unpacking would have to accept decompression bombs.
func TestCodecStoreCompressesWhatPays(t *testing.T) {
	noise, b := string(noise(4000)), newBench(nil)
	for name, c := range map[string]struct {
		body string
		want byte
	}{
		"below the least": {prose(511), 0},
		"the least":       {prose(512), compressed},
		"noise":           {noise, 0},
		"a little saved":  {noise + strings.Repeat("a", 300), 0},
		"enough saved":    {noise + strings.Repeat("a", 1000), compressed},
		"an empty body":   {"", 0},
		"repeated":        {strings.Repeat("sixteen letters.", 500), compressed},
		"all the same":    {strings.Repeat("a", 1<<20), 0},
		"several blocks":  {prose(1 << 20), compressed},
	} {
		value := cache.Seal(codecKey, []byte(c.body))
		stored := b.pack(t, value)
		if stored[flagsAt] != c.want {
			t.Errorf("%s: flags %d, want %d", name, stored[flagsAt], c.want)
		}
		if got, err := b.unpack(t, stored); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%s: got %d bytes, %v, want %d bytes", name, len(got), err, len(value))
		}
	}
}

// Errors and arguments of the next store are passed on unchanged.
func TestCodecStorePassesOn(t *testing.T) {
	broken := errors.New("broken")
	p := cache.NewCodecStore(cachetest.Faulty{Before: func(context.Context, cachetest.Op, string) error { return broken }}, nil)
	if got, err := p.Get(t.Context(), "k"); got != nil || !errors.Is(err, broken) {
		t.Errorf("get: got %q, %v", got, err)
	}
	if err := p.Set(t.Context(), "k", valueOf(0), time.Minute); !errors.Is(err, broken) {
		t.Errorf("set: got %v", err)
	}
	m := memory(t, 1<<20)
	p = cache.NewCodecStore(m, nil)
	if got, err := p.Get(t.Context(), "k"); got != nil || err != nil {
		t.Errorf("absent: got %q, %v", got, err)
	}
	for ttl, there := range map[time.Duration]bool{time.Minute: true, 0: false} {
		if err := p.Set(t.Context(), "k", valueOf(0), ttl); err != nil {
			t.Fatal(err)
		}
		if stored, err := m.Get(t.Context(), "k"); (stored != nil) != there || err != nil {
			t.Errorf("ttl %v: got %d bytes, %v", ttl, len(stored), err)
		}
	}
}

func TestCodecStoreConcurrent(t *testing.T) {
	p := cache.NewCodecStore(memory(t, 16<<20), keysOf(t, keyLine("k1", 1)))
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 60 {
				n := (w + i) % 16
				key := cache.NewKey(cache.Candidates, question(fmt.Sprint(n)))
				want := retrieval.Result{Sources: []retrieval.Source{{Text: prose(n * 1000), Chunk: n}}}
				if err := p.Set(t.Context(), key.String(), cache.Encode(key, want), time.Minute); err != nil {
					t.Errorf("set %d: %v", n, err)
				}
				val, err := p.Get(t.Context(), key.String())
				if err != nil {
					t.Errorf("get %d: %v", n, err)
					continue
				}
				if got, err := cache.Decode(key, val); err != nil || !cmp.Equal(want, got) {
					t.Errorf("get %d: another value: %v", n, err)
				}
			}
		})
	}
	all.Wait()
}

// texts returns bodies of about size bytes made of passages of a real collection, or of random
// words if that is missing.
func texts(b *testing.B, size int) (values [][]byte) {
	b.Helper()
	corpus, err := os.ReadFile("../../shared/ir/scifact/corpus.jsonl")
	if err != nil {
		b.Logf("made up texts: %v", err)
		corpus = []byte(strings.ReplaceAll(prose(4<<20), "\n", " "))
	}
	const passage = 1600
	for range 16 {
		r := retrieval.Result{Bases: question("").Bases, Retrieved: 50, Unique: 20}
		for i := range size / passage {
			r.Sources = append(r.Sources, retrieval.Source{
				Type: "rag", Knowledge: "docs", Doc: fmt.Sprintf("handbook/%d.md", i), Chunk: i, Name: "A title", Section: "A > B",
				Text: string(corpus[:passage]), Score: 9 / float64(i+1),
			})
			corpus = corpus[passage:]
		}
		values = append(values, cache.Encode(codecKey, r))
	}
	return values
}

func BenchmarkCodecStore(b *testing.B) {
	for _, size := range []int{10_000, 100_000} {
		values := texts(b, size)
		for name, keys := range map[string]*cache.Keys{"plain": nil, "encrypted": keysOf(b, keyLine("k1", 1))} {
			bench := newBench(keys)
			var before, after int
			var stored [][]byte
			for _, value := range values {
				stored = append(stored, bench.pack(b, value))
				before, after = before+len(value), after+len(bench.slot.val)
			}
			run := func(op string, f func(i int) error) {
				b.Run(fmt.Sprintf("%s/%dKB/%s", op, size/1000, name), func(b *testing.B) {
					b.ReportAllocs()
					b.SetBytes(int64(before / len(values)))
					for i := 0; b.Loop(); i++ {
						if err := f(i % len(values)); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(before)/float64(after), "ratio")
				})
			}
			run("get", func(i int) error {
				bench.slot.val = stored[i]
				_, err := bench.store.Get(b.Context(), "k")
				return err
			})
			run("set", func(i int) error { return bench.store.Set(b.Context(), "k", values[i], time.Minute) })
		}
	}
}
