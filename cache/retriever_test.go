package cache_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/cache"
	"sidenote/cache/cachetest"
	"sidenote/retrieval"
)

// fixed returns a Retriever that returns res and err for every query.
func fixed(res retrieval.Result, err error) retrieval.Func {
	return func(context.Context, retrieval.Query) (retrieval.Result, error) { return res, err }
}

// A tally counts by name, for several goroutines.
type tally struct {
	sync.Mutex
	counts map[string]int
}

// add counts name and returns its new count.
func (c *tally) add(name string) int {
	c.Lock()
	defer c.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[name]++
	return c.counts[name]
}

// like compares results without the fields that the cache sets.
var like = cmpopts.IgnoreFields(retrieval.Result{}, "Cache", "CacheKey", "Took")

// events collects a Retriever's events.
type events struct {
	sync.Mutex
	list []cache.Event
}

func (e *events) observe(event cache.Event) {
	e.Lock()
	defer e.Unlock()
	e.list = append(e.list, event)
}

// outcomes returns the events' outcomes, in order.
func (e *events) outcomes() []cache.Outcome {
	e.Lock()
	defer e.Unlock()
	var list []cache.Outcome
	for _, event := range e.list {
		list = append(list, event.Result)
	}
	return list
}

func TestRetrieverHit(t *testing.T) {
	var seen events
	r := cache.NewRetriever(fixed(answer(), nil), cache.Selected, near(memory(t, 1<<20)), seen.observe)
	key := cache.NewKey(cache.Selected, question("q")).Digest
	for _, want := range []retrieval.CacheState{retrieval.CacheMiss, retrieval.CacheHit, retrieval.CacheHit} {
		got, err := r.Retrieve(t.Context(), question("q"))
		if got.CacheKey != binary.BigEndian.Uint32(key[:]) {
			t.Errorf("%s of key %x", want, got.CacheKey)
		}
		if diff := cmp.Diff(answer(), got, like); err != nil || got.Cache != want || diff != "" {
			t.Errorf("%s, want %s (%v):\n%s", got.Cache, want, err, diff)
		}
	}
	if diff := cmp.Diff([]cache.Outcome{cache.Miss, cache.Hit, cache.Hit}, seen.outcomes()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// A result that is incomplete, or of another generation than requested, is not stored.
func TestRetrieverKeepsWholeAnswersOnly(t *testing.T) {
	with := func(change func(*retrieval.Result)) retrieval.Func {
		res := answer()
		change(&res)
		return fixed(res, nil)
	}
	young := question("q")
	young.Bases = []retrieval.Ref{{Knowledge: "docs", Generation: "ab12"}, {Knowledge: "faq"}}
	nowhere := question("q")
	nowhere.Bases = nil
	for name, c := range map[string]struct {
		next retrieval.Func
		q    retrieval.Query
		kept bool
	}{
		"whole":    {with(func(*retrieval.Result) {}), question("q"), true},
		"no match": {with(func(r *retrieval.Result) { r.Sources, r.Reason = nil, retrieval.ReasonNoMatch }), question("q"), true},
		"partial":  {with(func(r *retrieval.Result) { r.Partial = true }), question("q"), false},
		"degraded": {with(func(r *retrieval.Result) { r.Degraded = retrieval.StageEmbed }), question("q"), false},
		"estimate": {with(func(r *retrieval.Result) { r.Provisional = true }), question("q"), false},
		"timeout":  {with(func(r *retrieval.Result) { r.Reason = retrieval.ReasonTimeout }), question("q"), false},
		"moved on": {with(func(r *retrieval.Result) {
			r.Bases = []retrieval.Ref{r.Bases[0], {Knowledge: "faq", Generation: "ef56"}}
		}), question("q"), false},
		"one missing":                   {with(func(r *retrieval.Result) { r.Bases = r.Bases[:1] }), question("q"), false},
		"does not say what it searched": {with(func(r *retrieval.Result) { r.Bases = nil }), question("q"), false},
		"still indexing":                {with(func(r *retrieval.Result) { r.Bases = young.Bases }), young, false},
		"no bases":                      {with(func(r *retrieval.Result) { r.Bases = nil }), nowhere, false},
		"error":                         {fixed(answer(), errors.New("down")), question("q"), false},
	} {
		t.Run(name, func(t *testing.T) {
			sets := 0
			store := cachetest.Faulty{Store: memory(t, 1<<20), Before: func(_ context.Context, op cachetest.Op, _ string) error {
				if op == cachetest.Set {
					sets++
				}
				return nil
			}}
			r := cache.NewRetriever(c.next, cache.Selected, near(store), nil)
			if _, err := r.Retrieve(t.Context(), c.q); err != nil && !errors.Is(err, retrieval.ErrUnavailable) {
				t.Errorf("%v does not wrap ErrUnavailable", err)
			}
			if kept := sets > 0; kept != c.kept {
				t.Errorf("kept: %v, want %v", kept, c.kept)
			}
		})
	}
}

// ttls is a Store that records the ttl of each Set.
type ttls []time.Duration

func (s *ttls) Get(context.Context, string) ([]byte, error) { return nil, nil }

func (s *ttls) Set(_ context.Context, _ string, _ []byte, ttl time.Duration) error {
	*s = append(*s, ttl)
	return nil
}

func TestRetrieverTTL(t *testing.T) {
	empty := answer()
	empty.Sources, empty.Reason = nil, retrieval.ReasonNoMatch
	tier := cache.Tier{TTL: time.Hour, EmptyTTL: time.Second}
	for name, c := range map[string]struct {
		res      retrieval.Result
		low, top time.Duration
	}{
		"sources": {answer(), 54 * time.Minute, 66 * time.Minute},
		"empty":   {empty, 900 * time.Millisecond, 1100 * time.Millisecond},
	} {
		var noted ttls
		tier.Store = &noted
		r := cache.NewRetriever(fixed(c.res, nil), cache.Candidates, []cache.Tier{tier}, nil)
		for range 100 {
			if _, err := r.Retrieve(t.Context(), question("q")); err != nil {
				t.Fatal(err)
			}
		}
		differ := false
		for _, ttl := range noted {
			differ = differ || ttl != noted[0]
			if ttl < c.low || ttl > c.top {
				t.Errorf("%s: kept for %v, want %v to %v", name, ttl, c.low, c.top)
			}
		}
		if len(noted) != 100 || !differ {
			t.Errorf("%s: %d values kept, for different times: %v", name, len(noted), differ)
		}
	}
}

// A store that mixes up its keys never shows one tenant another's sources.
func TestRetrieverMixedUpStore(t *testing.T) {
	theirs, mine := question("q"), question("q")
	theirs.Tenant = "rival"
	secret, store := answer(), memory(t, 1<<20)
	secret.Sources = []retrieval.Source{{Knowledge: "docs", Doc: "secret.md", Text: "the rival's plans"}}
	value := cache.Encode(cache.NewKey(cache.Selected, theirs), secret)
	if err := store.Set(t.Context(), cache.NewKey(cache.Selected, mine).String(), value, time.Hour); err != nil {
		t.Fatal(err)
	}
	var seen events
	r := cache.NewRetriever(fixed(answer(), nil), cache.Selected, near(store), seen.observe)
	for range 2 { // the second call overwrites it with our value
		got, err := r.Retrieve(t.Context(), mine)
		if diff := cmp.Diff(answer(), got, like); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	want := []cache.Event{
		{Kind: cache.Selected, Tier: "memory", Result: cache.Mismatched, Mismatch: cache.MismatchTenant},
		{Kind: cache.Selected, Tier: "memory", Result: cache.Hit},
	}
	if diff := cmp.Diff(want, seen.list); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// Row P16: two releases share a store. Values of another schema, under its own keys or under ours,
// are a miss and no error; both find what they wrote themselves.
func TestP16AnotherRelease(t *testing.T) {
	store := memory(t, 1<<20)
	ours := cache.NewKey(cache.Selected, question("q"))
	r := cache.NewRetriever(fixed(answer(), nil), cache.Selected, near(store), nil)
	if got, err := r.Retrieve(t.Context(), question("q")); err != nil || got.Cache != retrieval.CacheMiss {
		t.Fatalf("%v, %v", got.Cache, err)
	}
	value, err := store.Get(t.Context(), ours.String())
	if err != nil || len(value) < 4 {
		t.Fatalf("%d bytes, %v", len(value), err)
	}
	if !strings.HasPrefix(ours.String(), fmt.Sprintf("v%d:", value[2])) {
		t.Errorf("the key %s does not begin with the schema of its value, %d", ours, value[2])
	}
	for _, schema := range []byte{value[2] - 1, value[2] + 1, 255} {
		other := bytes.Clone(value)
		other[2] = schema
		if err := store.Set(t.Context(), ours.String(), cache.Resum(other), time.Minute); err != nil {
			t.Fatal(err)
		}
		var seen events
		r := cache.NewRetriever(fixed(answer(), nil), cache.Selected, near(store), seen.observe)
		for _, want := range []retrieval.CacheState{retrieval.CacheMiss, retrieval.CacheHit} {
			if got, err := r.Retrieve(t.Context(), question("q")); err != nil || got.Cache != want || cmp.Diff(answer(), got, like) != "" {
				t.Errorf("schema %d: %v, %v; want %v", schema, got.Cache, err, want)
			}
		}
	}
}

func BenchmarkRetrieverHit(b *testing.B) {
	r := cache.NewRetriever(fixed(six(), nil), cache.Selected, near(memory(b, 1<<20)), nil)
	q := question("How many weeks of parental leave do I get?")
	if _, err := r.Retrieve(b.Context(), q); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if res, err := r.Retrieve(b.Context(), q); err != nil || res.Cache != retrieval.CacheHit {
			b.Fatal(res.Cache, err)
		}
	}
}

func BenchmarkRetrieverMiss(b *testing.B) {
	r := cache.NewRetriever(fixed(six(), nil), cache.Selected, near(&ttls{}), nil)
	q := question("How many weeks of parental leave do I get?")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Retrieve(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
}
