package cache_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache"
	"sidenote/cache/cachetest"
)

func TestMemory(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) cache.Store { return memory(t, 4<<20) })
}

func TestMemoryNeedsABound(t *testing.T) {
	for _, maxBytes := range []int64{0, -1} {
		if _, err := cache.NewMemory(maxBytes); err == nil {
			t.Errorf("%d bytes: no error", maxBytes)
		}
	}
}

func TestMemoryExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t, 1<<20)
		set := func(key string, ttl time.Duration) {
			if err := m.Set(t.Context(), key, []byte(key), ttl); err != nil {
				t.Error(err)
			}
		}
		set("minute", time.Minute)
		set("hour", time.Hour)
		<-time.After(time.Minute - time.Millisecond)
		if got, _ := m.Get(t.Context(), "minute"); got == nil {
			t.Error("gone before its time")
		}
		<-time.After(2 * time.Millisecond)
		if got, _ := m.Get(t.Context(), "minute"); got != nil {
			t.Error("there after its time")
		}
		if got, _ := m.Get(t.Context(), "hour"); got == nil {
			t.Error("each entry has a time of its own")
		}
	})
}

func TestMemoryBound(t *testing.T) {
	const bound, size = 64 << 10, 1000
	m := memory(t, bound)
	for i := range 2000 {
		if err := m.Set(t.Context(), fmt.Sprint("key ", i), make([]byte, size), time.Hour); err != nil {
			t.Fatal(err)
		}
		if used := m.Bytes(); used <= 0 || used > bound {
			t.Fatalf("%d bytes in use of %d after %d values", used, bound, i+1)
		}
	}
	kept := 0
	for i := range 2000 {
		if got, _ := m.Get(t.Context(), fmt.Sprint("key ", i)); got != nil {
			kept++
		}
	}
	if kept < bound/size/2 || kept > bound/size {
		t.Errorf("%d values of %d bytes kept in %d bytes", kept, size, bound)
	}
}

// A flood of one-time questions does not evict a popular value.
func TestMemoryAdmission(t *testing.T) {
	m := memory(t, 64<<10)
	set := func(key string) {
		if err := m.Set(t.Context(), key, make([]byte, 1000), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		set(fmt.Sprint("popular ", i))
	}
	for i := range 5000 {
		set(fmt.Sprint("once ", i))
		if _, err := m.Get(t.Context(), fmt.Sprint("popular ", i%10)); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for i := range 10 {
		if got, _ := m.Get(t.Context(), fmt.Sprint("popular ", i)); got != nil {
			kept++
		}
	}
	if kept < 9 {
		t.Errorf("%d of 10 popular values left", kept)
	}
}

// A value too large to store must not leave the previous value in place.
func TestMemoryGiant(t *testing.T) {
	m := memory(t, 64<<10)
	for _, size := range []int{100, 8 << 10} {
		if err := m.Set(t.Context(), "k", make([]byte, size), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := m.Get(t.Context(), "k"); got != nil {
		t.Errorf("%d bytes kept", len(got))
	}
}

func BenchmarkMemoryGet(b *testing.B) {
	m := memory(b, 1<<20)
	if err := m.Set(b.Context(), "k", make([]byte, 10000), time.Hour); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if v, _ := m.Get(b.Context(), "k"); v == nil {
			b.Fatal("gone")
		}
	}
}

func BenchmarkMemorySet(b *testing.B) {
	m := memory(b, 1<<20)
	val, keys := make([]byte, 10000), make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := m.Set(b.Context(), keys[i%len(keys)], val, time.Hour); err != nil {
			b.Fatal(err)
		}
	}
}
