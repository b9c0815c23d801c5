package toolcalls_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache"
	"sidenote/cache/cachetest"
	"sidenote/rewrite/toolcalls"
)

func TestMemoryContract(t *testing.T) {
	cachetest.Run(t, func(*testing.T) cache.Store { return toolcalls.NewTurnMemory(1 << 20) })
}

// A full TurnMemory keeps the newest entries, however often the others were read.
func TestMemoryKeepsTheLatest(t *testing.T) {
	const limit, size = 64 << 10, 1000
	m := toolcalls.NewTurnMemory(limit)
	there := func(i int) bool {
		value, err := m.Get(t.Context(), fmt.Sprint("key ", i))
		return err == nil && len(value) == size
	}
	const last = 2000
	for i := range last {
		if err := m.Set(t.Context(), fmt.Sprint("key ", i), make([]byte, size), time.Hour); err != nil {
			t.Fatal(err)
		}
		if used := m.Bytes(); used <= 0 || used > limit {
			t.Fatalf("%d bytes in use of %d", used, limit)
		}
		there(0)
	}
	const most = limit / (size + 300)
	for i := last - most; i < last; i++ {
		if !there(i) {
			t.Fatalf("key %d of %d is gone", i, last)
		}
	}
	if there(last - limit/size) {
		t.Error("more is kept than there is room for")
	}
}

// A value larger than the limit is not stored, removes the previous value, and takes no memory.
func TestMemoryHuge(t *testing.T) {
	m := toolcalls.NewTurnMemory(64 << 10)
	set := func(key string, size int) {
		if err := m.Set(t.Context(), key, make([]byte, size), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	set("other", 1000)
	held := m.Bytes()
	set("key", 1000)
	set("key", 64<<10)
	if value, err := m.Get(t.Context(), "key"); value != nil || err != nil || m.Bytes() != held {
		t.Errorf("%d bytes, %v; %d are held", len(value), err, m.Bytes())
	}
	if value, _ := m.Get(t.Context(), "other"); value == nil {
		t.Error("another one is gone")
	}
}

// Each value has its own lifetime, even after one with a longer lifetime.
func TestMemoryExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := toolcalls.NewTurnMemory(64 << 10)
		for _, v := range []struct {
			key string
			ttl time.Duration
		}{{"hour", time.Hour}, {"minute", time.Minute}} {
			if err := m.Set(t.Context(), v.key, []byte(v.key), v.ttl); err != nil {
				t.Fatal(err)
			}
		}
		there := func(key string) bool {
			value, _ := m.Get(t.Context(), key)
			return value != nil
		}
		<-time.After(time.Minute - 1)
		if !there("minute") || !there("hour") {
			t.Error("gone before its time")
		}
		<-time.After(1)
		if there("minute") || !there("hour") {
			t.Error("there after its time, or gone with another")
		}
		<-time.After(time.Hour)
		if there("hour") || m.Bytes() != 0 {
			t.Errorf("%d bytes are held", m.Bytes())
		}
	})
}
