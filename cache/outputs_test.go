package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache"
	"sidenote/cache/cachetest"
	"sidenote/rewrite/toolcalls"
)

// nearOutputs returns the tier of this process.
func nearOutputs() cache.Tier {
	return cache.Tier{Name: "memory", Store: toolcalls.NewTurnMemory(1 << 20)}
}

// far returns the tier that replicas share.
func far(s cache.Store, wait time.Duration) cache.Tier {
	return cache.Tier{Name: "redis", Store: s, Wait: wait}
}

// replica returns a StageOutputs with its own tier in front of a shared one.
func replica(shared cache.Store) *cache.StageOutputs {
	return cache.NewStageOutputs([]cache.Tier{nearOutputs(), far(shared, time.Minute)}, nil)
}

// finds fails the test unless m has exactly want under key; "" means nothing.
func finds(t *testing.T, m *cache.StageOutputs, key, want string) {
	t.Helper()
	if got, ok := m.Get(t.Context(), key); string(got) != want || ok != (want != "") {
		t.Errorf("found %q, %t, want %q", got, ok, want)
	}
}

var key = cache.StageOutputKey("acme", "api", []byte(`{"model":"m"}`))

// The last output of a key counts. Empty or too large outputs change nothing.
func TestPutAndGet(t *testing.T) {
	m := cache.NewStageOutputs([]cache.Tier{nearOutputs()}, nil)
	finds(t, m, key, "")
	for _, answer := range []string{"one", "two", string(make([]byte, cache.MaxStageOutput))} {
		m.Put(t.Context(), key, []byte(answer), time.Minute)
		finds(t, m, key, answer)
		finds(t, m, key, answer)
	}
	m.Put(t.Context(), key, []byte("kept"), time.Minute)
	m.Put(t.Context(), key, nil, time.Minute)
	m.Put(t.Context(), key, make([]byte, cache.MaxStageOutput+1), time.Minute)
	m.Put(t.Context(), key, []byte("no time"), 0)
	finds(t, m, key, "kept")
}

// Outputs meet only where everything they depend on is the same, wherever its parts end.
func TestKeysDoNotMeet(t *testing.T) {
	m := cache.NewStageOutputs([]cache.Tier{nearOutputs()}, nil)
	body := `{"model":"m","temperature":0}`
	all := [][3]string{
		{"acme", "api", body}, {"umbrella", "api", body}, {"acme", "other", body}, {"acme", "api", body + " "},
		{"acme", "ap", "i" + body}, {"acmea", "pi", body}, {"", "acmeapi", body}, {"acme", "", "api" + body},
	}
	for i, of := range all {
		k := cache.StageOutputKey(of[0], of[1], []byte(of[2]))
		finds(t, m, k, "")
		m.Put(t.Context(), k, fmt.Append(nil, i), time.Minute)
	}
	for i, of := range all {
		finds(t, m, cache.StageOutputKey(of[0], of[1], []byte(of[2])), fmt.Sprint(i))
	}
}

// Values expire in time, also if another replica took them from the shared store later, and if
// that store keeps them longer.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := toolcalls.NewTurnMemory(1 << 20)
		a, b := replica(shared), replica(forever{shared})
		a.Put(t.Context(), key, []byte("one"), time.Minute)
		<-time.After(30 * time.Second)
		finds(t, b, key, "one")
		<-time.After(30*time.Second - time.Millisecond)
		finds(t, a, key, "one")
		finds(t, b, key, "one")
		<-time.After(time.Millisecond)
		finds(t, a, key, "")
		finds(t, b, key, "")

		c := cache.NewStageOutputs([]cache.Tier{nearOutputs(), far(forever{shared}, time.Minute)}, nil)
		b.Put(t.Context(), key, []byte("two"), time.Minute)
		<-time.After(time.Minute)
		finds(t, c, key, "")
		b.Put(t.Context(), key, []byte("three"), time.Minute)
		finds(t, c, key, "three")
	})
}

// forever is a store that never expires values.
type forever struct{ cache.Store }

func (f forever) Set(ctx context.Context, key string, val []byte, _ time.Duration) error {
	return f.Store.Set(ctx, key, val, 1000*time.Hour)
}

// If any call of the shared store fails or panics, callers do not notice, and the replica that
// stored an output finds it.
func TestFaultsOfTheSharedStore(t *testing.T) {
	for _, fail := range []func() error{func() error { return errors.New("injected") }, func() error { panic("injected") }} {
		for failAt := 1; ; failAt++ {
			calls := 0
			shared := cachetest.Faulty{Store: toolcalls.NewTurnMemory(1 << 20), Before: func(context.Context, cachetest.Op, string) error {
				if calls++; calls == failAt {
					return fail()
				}
				return nil
			}}
			a, b := replica(shared), replica(shared)
			a.Put(t.Context(), key, []byte("one"), time.Minute)
			finds(t, a, key, "one")
			want := "one"
			if failAt <= 2 {
				want = ""
			}
			finds(t, b, key, want)
			if calls < failAt {
				if failAt != 3 { // one for Put, one for Get
					t.Errorf("%d calls", calls)
				}
				break
			}
		}
	}
}

// hanging is a store that never answers.
var hanging = cachetest.Faulty{Before: func(ctx context.Context, _ cachetest.Op, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}}

// A shared store that hangs costs at most its wait, and outputs of this process are found at once.
func TestSharedStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 50 * time.Millisecond
		m := cache.NewStageOutputs([]cache.Tier{nearOutputs(), far(hanging, wait)}, nil)
		takes := func(what string, want time.Duration, do func()) {
			start := time.Now()
			if do(); time.Since(start) != want {
				t.Errorf("%s takes %v, want %v", what, time.Since(start), want)
			}
		}
		takes("a miss", wait, func() { finds(t, m, key, "") })
		takes("to keep", wait, func() { m.Put(t.Context(), key, []byte("one"), time.Minute) })
		takes("a hit", 0, func() { finds(t, m, key, "one") })
		<-time.After(time.Second) // the last lookups end
	})
}

// A caller that has left does not wait.
func TestCallerLeaves(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := cache.NewStageOutputs([]cache.Tier{nearOutputs(), far(hanging, time.Hour)}, nil)
	m.Put(ctx, key, []byte("one"), time.Minute)
	finds(t, m, key, "one")
	if got, ok := m.Get(ctx, cache.StageOutputKey("acme", "api", nil)); ok {
		t.Errorf("found %q", got)
	}
}

// Any wrong value from the shared store is a miss and is counted.
func TestValuesThatAreNotTheKeys(t *testing.T) {
	sealed := func(value []byte, body string) []byte { // with the key's own digest and tenant
		return cache.Seal(cache.Key{Kind: cache.Outputs, Tenant: "acme", Digest: [32]byte(value[4:36])}, []byte(body))
	}
	for name, change := range map[string]func(value, other []byte) []byte{
		"another tenant's":   func(_, other []byte) []byte { return other },
		"nothing":            func(_, _ []byte) []byte { return []byte{} },
		"cut":                func(value, _ []byte) []byte { return value[:len(value)/2] },
		"damaged":            func(value, _ []byte) []byte { return append(slices.Clone(value[:len(value)-1]), value[len(value)-1]^1) },
		"no end":             func(value, _ []byte) []byte { return sealed(value, "") },
		"no text":            func(value, _ []byte) []byte { return sealed(value, "12345678") },
		"larger than is put": func(value, _ []byte) []byte { return sealed(value, string(make([]byte, cache.MaxStageOutput+9))) },
		"huge":               func(_, _ []byte) []byte { return make([]byte, 64<<20) },
	} {
		var mu sync.Mutex
		mismatches := 0
		observe := func(e cache.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Result == cache.Mismatched && e.Kind == cache.Outputs {
				mismatches++
			}
		}
		values := &lying{values: map[string][]byte{}}
		other := func() *cache.StageOutputs {
			return cache.NewStageOutputs([]cache.Tier{nearOutputs(), far(cache.NewCodecStore(values, nil), time.Minute)}, observe)
		}
		other().Put(t.Context(), cache.StageOutputKey("umbrella", "api", []byte(`{"model":"m"}`)), []byte("theirs"), time.Minute)
		theirs := values.values[values.last]
		other().Put(t.Context(), key, []byte("ours"), time.Minute)
		finds(t, other(), key, "ours")
		values.values[values.last] = change(values.values[values.last], theirs)
		finds(t, other(), key, "")
		if mismatches != 1 {
			t.Errorf("%s: %d mismatches", name, mismatches)
		}
	}
}

// lying is a store whose values are changed by a test.
type lying struct {
	values map[string][]byte
	last   string
}

func (l *lying) Get(_ context.Context, key string) ([]byte, error) { return l.values[key], nil }

func (l *lying) Set(_ context.Context, key string, val []byte, _ time.Duration) error {
	l.values[key], l.last = val, key
	return nil
}

// However much is stored, this process holds no more than its tier allows.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 1 << 20
	held := toolcalls.NewTurnMemory(limit)
	m := cache.NewStageOutputs([]cache.Tier{{Name: "memory", Store: held}}, nil)
	text := bytes.Repeat([]byte("x"), cache.MaxStageOutput)
	last := ""
	for n := range 20 {
		last = cache.StageOutputKey("acme", "api", fmt.Append(nil, n))
		m.Put(t.Context(), last, text, time.Hour)
		if n := held.Bytes(); n <= cache.MaxStageOutput || n > limit {
			t.Fatalf("%d bytes are held of %d", n, limit)
		}
	}
	finds(t, m, last, string(text))
}
