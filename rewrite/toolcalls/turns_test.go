package toolcalls_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache"
	"sidenote/cache/cachetest"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite/toolcalls"
)

// turn returns a turn with text as its result.
func turn(text string) *toolcalls.Turn {
	result, _ := json.Marshal(map[string]string{"role": "tool", "tool_call_id": "c", "content": text})
	return &toolcalls.Turn{
		Calls:   []toolcalls.HistoryCall{{At: 1, JSON: json.RawMessage(`{"id":"c","type":"function","function":{"name":"search_knowledge","arguments":"{}"}}`)}},
		Results: []json.RawMessage{result},
	}
}

// text returns the text of a turn; "" if t is nil.
func text(t *toolcalls.Turn) string {
	if t == nil {
		return ""
	}
	var m struct{ Content string }
	_ = json.Unmarshal(t.Results[0], &m)
	return m.Content
}

func key(n byte) toolcalls.TurnKey { return toolcalls.TurnKey{31: n} }

var acme = toolcalls.TurnOwner{Tenant: "acme", Access: "all"}

// near returns the in-process tier.
func near(m *toolcalls.TurnMemory) cache.Tier {
	return cache.Tier{Name: "memory", Store: m, TTL: toolcalls.TurnLifetime, EmptyTTL: toolcalls.TurnLifetime}
}

// far returns the tier shared by replicas.
func far(s cache.Store, wait time.Duration) cache.Tier {
	return cache.Tier{Name: "redis", Store: s, TTL: toolcalls.TurnLifetime, EmptyTTL: toolcalls.TurnLifetime, Wait: wait}
}

// alone returns a store without a shared tier.
func alone() *toolcalls.TurnStore {
	return toolcalls.NewTurnStore([]cache.Tier{near(toolcalls.NewTurnMemory(1 << 20))}, nil)
}

func keep(t *testing.T, s *toolcalls.TurnStore, o toolcalls.TurnOwner, k toolcalls.TurnKey, text string) {
	t.Helper()
	if err := s.Keep(t.Context(), o, k, turn(text)); err != nil {
		t.Fatal(err)
	}
}

// finds fails unless s returns exactly the texts in want for keys.
func finds(t *testing.T, s *toolcalls.TurnStore, o toolcalls.TurnOwner, keys []toolcalls.TurnKey, want ...string) {
	t.Helper()
	var got []string
	for _, found := range s.Find(t.Context(), o, keys) {
		got = append(got, text(found))
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// A turn is found under its key any number of times, and the last one stored under a key counts.
func TestKeepAndFind(t *testing.T) {
	s := alone()
	keep(t, s, acme, key(1), "one")
	keep(t, s, acme, key(3), "three")
	for range 3 {
		finds(t, s, acme, []toolcalls.TurnKey{key(1), key(2), key(3)}, "one", "", "three")
	}
	keep(t, s, acme, key(1), "another")
	finds(t, s, acme, []toolcalls.TurnKey{key(1)}, "another")
	finds(t, s, acme, nil)
	if err := s.Keep(t.Context(), acme, key(4), turn(strings.Repeat("x", toolcalls.MaxTurnSize))); !errors.Is(err, toolcalls.ErrTooLarge) {
		t.Errorf("a turn larger than any is kept: %v", err)
	}
	if err := s.Keep(t.Context(), acme, key(4), &toolcalls.Turn{}); err == nil {
		t.Error("an empty turn is kept")
	}
	finds(t, s, acme, []toolcalls.TurnKey{key(4)}, "")
}

// The total size of found turns is limited, and the newest are found first.
func TestFoundIsBounded(t *testing.T) {
	s := toolcalls.NewTurnStore([]cache.Tier{near(toolcalls.NewTurnMemory(4 << 20))}, nil)
	large := strings.Repeat("x", toolcalls.MaxFoundSize*2/5)
	for n := range byte(4) {
		keep(t, s, acme, key(n), large)
	}
	finds(t, s, acme, []toolcalls.TurnKey{key(0), key(1), key(9), key(2), key(3)}, "", "", "", large, large)
	keep(t, s, acme, key(4), "small") // older than the turn that exceeded the limit: no gaps
	finds(t, s, acme, []toolcalls.TurnKey{key(4), key(1), key(2), key(3)}, "", "", large, large)
}

// Only its owner finds a turn, wherever the parts of the owner's id end.
func TestOwnersDoNotMeet(t *testing.T) {
	inside := func(f string) *filter.Filter {
		made, err := filter.Parse([]byte(f))
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	of := func(tenant string, f *filter.Filter, bases ...string) toolcalls.TurnOwner {
		q := retrieval.Query{Tenant: tenant, Filter: f}
		for _, base := range bases {
			q.Bases = append(q.Bases, retrieval.Ref{Knowledge: base, Generation: "any"})
		}
		return toolcalls.TurnOwnerOf(&q)
	}
	owners := []toolcalls.TurnOwner{
		of("acme", nil), of("umbrella", nil), of("acme", nil, "hr"), of("acme", nil, "hr", "it"), of("acme", nil, "hrit"),
		of("acme", inside(`{"type":"eq","key":"team","value":"a"}`), "hr"), of("acme", inside(`{"type":"eq","key":"team","value":"b"}`), "hr"),
		{Tenant: "a", Access: "cme"}, {Tenant: "ac", Access: "me"}, {Tenant: "", Access: "acme"},
	}
	shared := toolcalls.NewTurnMemory(1 << 20)
	s := toolcalls.NewTurnStore([]cache.Tier{near(shared)}, nil)
	for i, o := range owners {
		finds(t, s, o, []toolcalls.TurnKey{key(1)}, "")
		keep(t, s, o, key(1), fmt.Sprint(i))
	}
	for i, o := range owners {
		finds(t, s, o, []toolcalls.TurnKey{key(1)}, fmt.Sprint(i))
	}
	if a, b := of("acme", nil, "hr"), toolcalls.TurnOwnerOf(&retrieval.Query{Tenant: "acme", Bases: []retrieval.Ref{{Knowledge: "hr", Generation: "another"}}}); a != b {
		t.Errorf("new documents change the owner: %q, %q", a, b)
	}
}

// A turn is stored for ten minutes, give or take one.
func TestLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := toolcalls.NewTurnMemory(1 << 20)
		s := toolcalls.NewTurnStore([]cache.Tier{near(m)}, nil)
		keep(t, s, acme, key(1), "one")
		<-time.After(toolcalls.TurnLifetime * 8 / 10)
		keep(t, s, acme, key(2), "two")
		finds(t, s, acme, []toolcalls.TurnKey{key(1), key(2)}, "one", "two")
		<-time.After(toolcalls.TurnLifetime * 4 / 10)
		finds(t, s, acme, []toolcalls.TurnKey{key(1), key(2)}, "", "two")
		<-time.After(toolcalls.TurnLifetime)
		if n := m.Bytes(); n != 0 {
			t.Errorf("%d bytes are held of turns whose time is over", n)
		}
	})
}

// A turn stored by one replica is found by another, also with encryption; the stored value then
// reveals nothing of it.
func TestReplicas(t *testing.T) {
	keys, err := cache.ParseKeys([]byte("one AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"))
	if err != nil {
		t.Fatal(err)
	}
	seen := ""
	shared := cachetest.Faulty{Store: spy{toolcalls.NewTurnMemory(1 << 20), &seen}, Before: func(context.Context, cachetest.Op, string) error { return nil }}
	replica := func() *toolcalls.TurnStore {
		return toolcalls.NewTurnStore([]cache.Tier{near(toolcalls.NewTurnMemory(1 << 20)), far(cache.NewCodecStore(shared, keys), time.Minute)}, nil)
	}
	a, b := replica(), replica()
	keep(t, a, acme, key(1), "a secret")
	finds(t, b, acme, []toolcalls.TurnKey{key(1), key(2)}, "a secret", "")
	if seen == "" || strings.Contains(seen, "secret") || strings.Contains(seen, "search_knowledge") {
		t.Errorf("between them lies %q", seen)
	}
}

// A spy records the last value that was set.
type spy struct {
	cache.Store
	seen *string
}

func (s spy) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	*s.seen = string(val)
	return s.Store.Set(ctx, key, val, ttl)
}

// Whichever call of the shared store fails or panics, no error is returned, and the replica that
// stored a turn finds it.
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
			a := toolcalls.NewTurnStore([]cache.Tier{near(toolcalls.NewTurnMemory(1 << 20)), far(shared, time.Minute)}, nil)
			b := toolcalls.NewTurnStore([]cache.Tier{near(toolcalls.NewTurnMemory(1 << 20)), far(shared, time.Minute)}, nil)
			keep(t, a, acme, key(1), "one")
			finds(t, a, acme, []toolcalls.TurnKey{key(1)}, "one")
			if got := text(b.Find(t.Context(), acme, []toolcalls.TurnKey{key(1)})[0]); got != "one" && (got != "" || failAt > 2) {
				t.Errorf("call %d fails: the other replica finds %q", failAt, got)
			}
			if calls < failAt {
				if failAt != 3 { // one replica that stores, one that finds
					t.Errorf("%d calls", calls)
				}
				break
			}
		}
	}
}

// A shared store that hangs costs its wait only once, however many turns are looked up, and those
// in this process are found.
func TestSharedStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 50 * time.Millisecond
		hanging := cachetest.Faulty{Before: func(ctx context.Context, _ cachetest.Op, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		s := toolcalls.NewTurnStore([]cache.Tier{near(toolcalls.NewTurnMemory(1 << 20)), far(hanging, wait)}, nil)
		took := func(what string, do func()) {
			start := time.Now()
			if do(); time.Since(start) != wait {
				t.Errorf("%s takes %v, want %v", what, time.Since(start), wait)
			}
		}
		took("keeping", func() { keep(t, s, acme, key(1), "one") })
		took("finding", func() {
			finds(t, s, acme, []toolcalls.TurnKey{key(1), key(2), key(3), key(4)}, "one", "", "", "")
		})
		<-time.After(time.Second) // the last look-ups end first
	})
}

// If time is short, the newest turns are looked up first.
func TestNewestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := cachetest.Faulty{Store: toolcalls.NewTurnMemory(1 << 20), Before: func(_ context.Context, op cachetest.Op, _ string) error {
			if op == cachetest.Get {
				<-time.After(20 * time.Millisecond)
			}
			return nil
		}}
		replica := func() *toolcalls.TurnStore {
			return toolcalls.NewTurnStore([]cache.Tier{near(toolcalls.NewTurnMemory(1 << 20)), far(shared, 50*time.Millisecond)}, nil)
		}
		keys := []toolcalls.TurnKey{key(1), key(2), key(3), key(4)}
		a := replica()
		for i, k := range keys {
			keep(t, a, acme, k, fmt.Sprint(i))
		}
		finds(t, replica(), acme, keys, "", "", "2", "3")
		<-time.After(time.Second) // the last one looked up is found too late
	})
}

// Other values from the shared store are ignored and counted: a damaged value, one of another key
// or tenant, and one that is not a turn.
func TestValuesThatAreNotTheKeys(t *testing.T) {
	for name, change := range map[string]func(value []byte, other []byte) []byte{
		"another tenant's": func(_, other []byte) []byte { return other },
		"nothing":          func([]byte, []byte) []byte { return []byte{} },
		"cut":              func(value, _ []byte) []byte { return value[:len(value)/2] },
		"damaged": func(value, _ []byte) []byte {
			return append(slices.Clone(value[:80]), append([]byte{value[80] ^ 1}, value[81:]...)...)
		},
		"no turn": func(value, _ []byte) []byte {
			return cache.Seal(cache.Key{Kind: cache.Turns, Tenant: "acme", Digest: [32]byte(value[4:36])}, []byte("{}"))
		},
		"huge": func([]byte, []byte) []byte { return make([]byte, 64<<20) },
	} {
		values := &lying{values: map[string][]byte{}}
		var mu sync.Mutex
		mismatches := 0
		observe := func(e cache.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Result == cache.Mismatched {
				mismatches++
			}
		}
		replica := func() *toolcalls.TurnStore {
			return toolcalls.NewTurnStore([]cache.Tier{near(toolcalls.NewTurnMemory(1 << 20)), far(cache.NewCodecStore(values, nil), time.Minute)}, observe)
		}
		a := replica()
		keep(t, a, toolcalls.TurnOwner{Tenant: "umbrella", Access: "all"}, key(1), "theirs")
		other := values.values[values.last]
		keep(t, a, acme, key(1), "ours")
		at := values.last
		finds(t, replica(), acme, []toolcalls.TurnKey{key(1)}, "ours")
		values.values[at] = change(values.values[at], other)
		finds(t, replica(), acme, []toolcalls.TurnKey{key(1)}, "")
		if mismatches != 1 {
			t.Errorf("%s: %d mismatches", name, mismatches)
		}
	}
}

// lying is a store whose values a test can change.
type lying struct {
	values map[string][]byte
	last   string
}

func (l *lying) Get(_ context.Context, key string) ([]byte, error) { return l.values[key], nil }

func (l *lying) Set(_ context.Context, key string, val []byte, _ time.Duration) error {
	l.values[key], l.last = val, key
	return nil
}

// If the caller's context is canceled, nothing waits.
func TestCallerLeaves(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hanging := cachetest.Faulty{Before: func(ctx context.Context, _ cachetest.Op, _ string) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	s := toolcalls.NewTurnStore([]cache.Tier{near(toolcalls.NewTurnMemory(1 << 20)), far(hanging, time.Hour)}, nil)
	if err := s.Keep(ctx, acme, key(1), turn("one")); err != nil {
		t.Error(err)
	}
	if found := s.Find(ctx, acme, []toolcalls.TurnKey{key(2), key(1)}); found[0] != nil || text(found[1]) != "one" {
		t.Errorf("found %v", found)
	}
}
