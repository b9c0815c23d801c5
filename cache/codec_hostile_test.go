package cache_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"sidenote/cache"
	"sidenote/retrieval"
)

func TestCodecStoreDamaged(t *testing.T) {
	for _, f := range forms(t) {
		b := newBench(f.keys)
		stored := b.pack(t, f.value)
		refused := func(what string, damaged []byte) {
			t.Helper()
			if got, err := b.unpack(t, damaged); err == nil {
				t.Errorf("%s: %s: got %d bytes", f.name, what, len(got))
			}
		}
		for i := range stored {
			for bit := range 8 {
				damaged := bytes.Clone(stored)
				damaged[i] ^= 1 << bit
				refused(fmt.Sprintf("bit %d of byte %d", bit, i), damaged)
			}
			damaged := bytes.Clone(stored)
			damaged[i] = ^damaged[i]
			refused(fmt.Sprint("byte ", i), damaged)
			refused(fmt.Sprint("cut to ", i), stored[:i:i])
			refused(fmt.Sprint("begun at ", i+1), stored[i+1:])
		}
		for n := range 40 {
			refused("appended", append(bytes.Clone(stored), make([]byte, n+1)...))
		}
		refused("twice", append(bytes.Clone(stored), stored...))
	}
}

// A valid checksum proves nothing: with keys any changed byte is detected, and without them a
// change is harmless.
func TestCodecStoreTamperedWith(t *testing.T) {
	for _, f := range forms(t) {
		b := newBench(f.keys)
		stored := b.pack(t, f.value)
		try := func(what string, tampered []byte) {
			t.Helper()
			got, err := b.unpack(t, cache.Resum(tampered))
			if f.flags&encrypted != 0 && err == nil {
				t.Errorf("%s: %s: got %d bytes", f.name, what, len(got))
			}
		}
		for i := range len(stored) - 4 {
			tampered := bytes.Clone(stored)
			tampered[i] ^= 1 << (i % 8)
			try(fmt.Sprint("byte ", i), tampered)
			try(fmt.Sprint("cut to ", i), stored[:i+4])
			try(fmt.Sprint("without byte ", i), slices.Delete(bytes.Clone(stored), i, i+1))
		}
		try("appended", append(bytes.Clone(stored), 0))
	}
}

// The value of another tenant or another question is never accepted.
func TestCodecStoreExchanged(t *testing.T) {
	q := question("q")
	q.Tenant = "evil"
	evil := cache.NewKey(cache.Candidates, q)
	for _, f := range forms(t) {
		b := newBench(f.keys)
		stored := b.pack(t, f.value)
		otherTenant, otherKey := bytes.Clone(stored), bytes.Clone(stored)
		copy(otherTenant[digestAt:headSize], cache.Encode(evil, retrieval.Result{})[digestAt:headSize])
		copy(otherKey[digestAt:], bytes.Repeat([]byte{7}, 32))
		for want, tampered := range map[cache.Mismatch][]byte{cache.MismatchTenant: otherTenant, cache.MismatchKey: otherKey} {
			val, err := b.unpack(t, cache.Resum(tampered))
			switch {
			case f.flags&encrypted != 0:
				want = cache.MismatchEncryption
			case err == nil:
				_, err = cache.Decode(codecKey, val)
			}
			if !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", f.name, err, want)
			}
		}
		val, err := b.unpack(t, stored) // intact, but requested under another key
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cache.Decode(evil, val); !errors.Is(err, cache.MismatchTenant) {
			t.Errorf("%s at another tenant's key: got %v", f.name, err)
		}
		if _, err := cache.Decode(cache.NewKey(cache.Candidates, question("p")), val); !errors.Is(err, cache.MismatchKey) {
			t.Errorf("%s at another question's key: got %v", f.name, err)
		}
	}
}

// forge returns body as a value with any flags, encrypted with key 1 if the flags say so.
func forge(t testing.TB, flags byte, body []byte) []byte {
	b := bytes.Clone(valueOf(0)[:headSize])
	b[flagsAt] = flags
	if flags&encrypted != 0 {
		b = append(b, "\x02k1"...)
		body = aeadOf(t, 1).Seal(nil, nil, body, b)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = append(b, body...)
	return cache.Resum(append(b, 0, 0, 0, 0))
}

// frame returns a zstd frame with a length prefix, which may be wrong.
func frame(t testing.TB, length int, text []byte) []byte {
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(text, binary.AppendUvarint(nil, uint64(length)))
}

// bomb returns a frame without its decompressed size: blocks of 128 KiB, each made of four bytes.
func bomb(length, blocks int) []byte {
	b := append(binary.AppendUvarint(nil, uint64(length)), 0x28, 0xb5, 0x2f, 0xfd, 0, 0x58)
	for i := range blocks {
		const rle, size = 1, 128 << 10
		head := size<<3 | rle<<1
		if i == blocks-1 {
			head |= 1
		}
		b = append(b, byte(head), byte(head>>8), byte(head>>16), 'a')
	}
	return b
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestCodecStoreLies(t *testing.T) {
	text := []byte(prose(2000))
	tooLarge := append(noise(64<<10), make([]byte, 8<<20)...)
	for _, flags := range []byte{compressed, compressed | encrypted} {
		b := newBench(nil)
		if flags&encrypted != 0 {
			b = newBench(keysOf(t, keyLine("k1", 1)))
		}
		if got, err := b.unpack(t, forge(t, flags, frame(t, len(text), text))); err != nil || !bytes.Contains(got, text) {
			t.Fatalf("the truth: got %d bytes, %v", len(got), err)
		}
		for name, body := range map[string][]byte{
			"one short":            frame(t, len(text)-1, text),
			"one long":             frame(t, len(text)+1, text),
			"none":                 frame(t, 0, text),
			"far too long":         frame(t, 1<<30, text),
			"enough for too much":  append(binary.AppendUvarint(nil, 200<<20), noise(1<<20)...),
			"true, but too large":  frame(t, len(tooLarge), tooLarge),
			"negative":             frame(t, -1, text),
			"no frame":             {10},
			"no length":            {},
			"a length without end": bytes.Repeat([]byte{0xff}, 20),
			"noise":                append([]byte{200, 1}, text...),
			"two frames":           append(frame(t, 2*len(text)+1, text), frame(t, len(text), text)...),
			"a large text":         frame(t, 64<<20, make([]byte, 64<<20)),
			"a large text, small":  frame(t, 1000, make([]byte, 64<<20)),
			"a bomb":               bomb(1000, 10_000),
			"a bomb of its size":   bomb(10_000<<17, 10_000),
			"a bomb of any size":   bomb(8<<20, 10_000),
			"a small bomb":         bomb(128<<10, 1),
			"a window of 2 TiB":    {10, 0x28, 0xb5, 0x2f, 0xfd, 0, 0xff, 1, 0, 0},
		} {
			stored := forge(t, flags, body)
			var err error
			bytes := allocated(func() { _, err = b.unpack(t, stored) })
			if !errors.Is(err, cache.MismatchBody) {
				t.Errorf("%s: got %v", name, err)
			}
			if most := 3*256*uint64(len(stored)) + 1<<20; bytes > most || bytes > 20<<20 {
				t.Errorf("%s: %d bytes allocated for %d", name, bytes, len(stored))
			}
		}
	}
}

func TestCodecStoreMismatch(t *testing.T) {
	keys := keysOf(t, keyLine("k1", 1))
	sealed, plain := forge(t, encrypted, nil), forge(t, 0, nil)
	unknownFlag := bytes.Clone(plain)
	unknownFlag[flagsAt] = 4
	for name, c := range map[string]struct {
		keys   *cache.Keys
		stored []byte
		want   cache.Mismatch
	}{
		"not encrypted though keys are set": {keys, plain, cache.MismatchEncryption},
		"compressed though keys are set":    {keys, forge(t, compressed, frame(t, 1, []byte("a"))), cache.MismatchEncryption},
		"encrypted though none are":         {nil, sealed, cache.MismatchEncryption},
		"unknown key":                       {keysOf(t, keyLine("k2", 1)), sealed, cache.MismatchEncryption},
		"another key of that id":            {keysOf(t, keyLine("k1", 2)), sealed, cache.MismatchEncryption},
		"no room for a nonce":               {keys, cache.Resum(append(forge(t, encrypted, nil)[:headSize+3], 1, 0, 0, 0, 0, 0, 0, 0, 0)), cache.MismatchEncryption},
		"no key id":                         {keys, cache.Resum(append(bytes.Clone(sealed[:headSize]), 0, 0, 0, 0)), cache.MismatchBody},
		"another flag":                      {nil, cache.Resum(unknownFlag), cache.MismatchVersion},
		"another program's":                 {nil, []byte(`{"sources":[]}`), cache.MismatchVersion},
		"empty":                             {nil, []byte{}, cache.MismatchVersion},
		"giant":                             {nil, forge(t, 0, make([]byte, 9<<20)), cache.MismatchSize},
	} {
		if _, err := newBench(c.keys).unpack(t, c.stored); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestCodecStoreSetRefuses(t *testing.T) {
	var damaged = valueOf(100)
	damaged[50]++
	largest := cache.Seal(codecKey, make([]byte, 8<<20-headSize-8))
	for name, c := range map[string]struct {
		val  []byte
		want error
	}{
		"nothing":       {nil, cache.MismatchVersion},
		"another form":  {[]byte(prose(1000)), cache.MismatchVersion},
		"damaged":       {damaged, cache.MismatchChecksum},
		"packed":        {newBench(nil).pack(t, valueOf(1000)), cache.MismatchVersion},
		"without end":   {cache.Resum(append(valueOf(0), 0)), cache.MismatchBody},
		"one too large": {cache.Seal(codecKey, make([]byte, 8<<20-headSize-7)), cache.MismatchSize},
		"the largest":   {largest, nil},
	} {
		for _, keys := range []*cache.Keys{nil, keysOf(t, keyLine("k1", 1))} {
			b := newBench(keys)
			if err := b.store.Set(t.Context(), "k", c.val, time.Minute); !errors.Is(err, c.want) || (err == nil) != (b.slot.val != nil) {
				t.Errorf("%s: got %v, want %v; %d bytes kept", name, err, c.want, len(b.slot.val))
			}
		}
	}
	b := newBench(keysOf(t, keyLine("k1", 1)))
	if got, err := b.unpack(t, b.pack(t, largest)); err != nil || !bytes.Equal(got, largest) {
		t.Errorf("the largest: got %d bytes, %v", len(got), err)
	}
}

// FuzzUnpack feeds random bytes, also as the body of intact and of encrypted values, since random
// bytes alone would never pass the checksum.
func FuzzUnpack(f *testing.F) {
	keys := keysOf(f, keyLine("k1", 1))
	plain, sealed := newBench(nil), newBench(keys)
	for _, form := range forms(f) {
		f.Add(newBench(form.keys).pack(f, form.value))
	}
	for _, body := range [][]byte{
		frame(f, 2000, []byte(prose(2000))), frame(f, 100, []byte(prose(2000))), frame(f, 1<<20, make([]byte, 1<<20)),
		bomb(1000, 3), bomb(128<<10, 100), {}, {10}, bytes.Repeat([]byte{0xff}, 20),
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		values := [][]byte{data, forge(t, 0, data), forge(t, compressed, data), forge(t, encrypted, data), forge(t, compressed|encrypted, data)}
		if len(data) > headSize {
			values = append(values, cache.Resum(data))
		}
		for _, stored := range values {
			for _, b := range []*bench{plain, sealed} {
				var val []byte
				var err error
				if bytes, most := allocated(func() { val, err = b.unpack(t, stored) }), 3*256*uint64(len(stored))+2<<20; bytes > most {
					t.Fatalf("%d bytes allocated for %d", bytes, len(stored))
				}
				if err != nil {
					continue
				}
				if _, err := cache.Body(keyIn(val), val); err != nil {
					t.Fatalf("unpacked, but not a plain value: %v", err)
				}
				if again, err := b.unpack(t, b.pack(t, val)); err != nil || !bytes.Equal(again, val) {
					t.Fatalf("unpacked, but not the same again: %v", err)
				}
			}
		}
	})
}

// keyIn returns the key stored in a value.
func keyIn(val []byte) (k cache.Key) {
	copy(k.Digest[:], val[digestAt:])
	n, width := binary.Uvarint(val[tenantAt-1:])
	k.Tenant = string(val[tenantAt-1+width:][:n])
	return k
}
