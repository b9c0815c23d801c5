package cache_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"sidenote/cache"
)

// A text is compressed by a factor of at most exactly 256, and unpacking accepts the same.
func TestCodecStoreInflation(t *testing.T) {
	const most, end = 256, 64 << 10
	b := newBench(nil)
	same := func(size int) []byte { return bytes.Repeat([]byte("a"), size) }
	// widthOf returns the width of the length before a frame.
	widthOf := func(size int) int { return len(binary.AppendUvarint(nil, uint64(size))) }

	size, stored := most, []byte(nil)
	for ; size < end; size += most {
		stored = b.pack(t, cache.Seal(codecKey, same(size)))
		if most*(len(stored)-headSize-4-widthOf(size)-4) == size {
			break
		}
	}
	if size == end || stored[flagsAt] != compressed {
		t.Errorf("up to %d equal bytes none are compressed to 1/%d", size, most)
	}
	if stored := b.pack(t, cache.Seal(codecKey, same(size+1))); stored[flagsAt] != 0 {
		t.Errorf("%d bytes are compressed like %d", size+1, size)
	}

	for size = most; size < end && most*(len(frame(t, size, same(size)))-widthOf(size)) != size; {
		size += most
	}
	if got, err := b.unpack(t, forge(t, compressed, frame(t, size, same(size)))); err != nil || len(got) != headSize+4+size+4 {
		t.Errorf("%d bytes of a frame: got %d, %v", size, len(got), err)
	}
	size++
	if _, err := b.unpack(t, forge(t, compressed, frame(t, size, same(size)))); !errors.Is(err, cache.MismatchBody) {
		t.Errorf("%d bytes of a frame: %v", size, err)
	}
}

// A text is stored compressed if that saves at least an eighth.
func TestCodecStoreSaving(t *testing.T) {
	b, text := newBench(nil), noise(1000)
	for len(text) < 2000 {
		stored := b.pack(t, cache.Seal(codecKey, text))
		if stored[flagsAt] == 0 {
			text = append(text, 'a')
			continue
		}
		if size := len(stored) - headSize - 4 - 4; size != len(text)-len(text)/8 {
			t.Errorf("the first that is compressed goes from %d to %d bytes", len(text), size)
		}
		return
	}
	t.Error("none is compressed")
}

// Values of the maximum size, and of one byte more.
func TestCodecStoreSizes(t *testing.T) {
	const maxPlain, maxStored = 8 << 20, 8<<20 + 128
	b := newBench(nil)
	for size, want := range map[int]error{maxStored: cache.MismatchVersion, maxStored + 1: cache.MismatchSize} {
		if _, err := b.unpack(t, make([]byte, size)); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
	}
	text := append(noise(64<<10), make([]byte, maxPlain+1-64<<10)...)
	for size, ok := range map[int]bool{1: true, 100: true, 127: true, 128: true, maxPlain: true, maxPlain + 1: false} {
		got, err := b.unpack(t, forge(t, compressed, frame(t, size, text[:size])))
		if ok && (err != nil || !bytes.Contains(got, text[:size])) || !ok && !errors.Is(err, cache.MismatchBody) {
			t.Errorf("a text of %d bytes: got %d, %v", size, len(got), err)
		}
	}
	sealed := newBench(keysOf(t, keyLine("k1", 1)))
	wrong := forge(t, encrypted, []byte("text"))
	wrong[headSize+3]++ // the body's length
	if _, err := sealed.unpack(t, cache.Resum(wrong)); !errors.Is(err, cache.MismatchBody) {
		t.Errorf("a body of another length: %v", err)
	}
}

// both is a Store that returns a value together with an error.
type both struct{ slot }

var errBoth = errors.New("half read")

func (b *both) Get(context.Context, string) ([]byte, error) { return b.val, errBoth }

// A value that comes with an error is not used.
func TestCodecStoreValueWithAnError(t *testing.T) {
	store := &both{}
	p := cache.NewCodecStore(store, nil)
	if err := p.Set(t.Context(), "k", valueOf(10), time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Get(t.Context(), "k"); got != nil || !errors.Is(err, errBoth) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}
