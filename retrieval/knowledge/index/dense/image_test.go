package dense_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// someVectors returns few enough vectors to change each of their bytes; one text has none.
func someVectors() [][]float32 {
	vectors := clusters(1, 30, 40)
	vectors[5] = nil
	return vectors
}

// Every changed, missing or additional byte is noticed when the image is opened or, in a vector,
// when it is read; and nothing panics.
func TestDamageIsNoticed(t *testing.T) {
	whole := image(t, someVectors(), 40)
	read := func(image []byte) error {
		s, err := dense.Open(image, "space", nil)
		if err != nil {
			return err
		}
		_, err = index(t, s.Live(nil)).Search(t.Context(), question(t, someVectors()[0]), 10, nil)
		return err
	}
	if err := read(whole); err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		if testing.Short() && at%7 > 0 {
			continue
		}
		for _, flip := range []byte{1, 0x80, 0xff} {
			bad := slices.Clone(whole)
			bad[at] ^= flip
			if err := read(bad); !errors.Is(err, dense.ErrDamaged) && !unread(at, len(whole)) {
				t.Fatalf("byte %d of %d xor %#x: %v", at, len(whole), flip, err)
			}
		}
		if err := read(whole[:at]); !errors.Is(err, dense.ErrDamaged) {
			t.Fatalf("%d of %d bytes: %v", at, len(whole), err)
		}
	}
	if err := read(append(slices.Clone(whole), make([]byte, 8)...)); !errors.Is(err, dense.ErrDamaged) {
		t.Errorf("8 bytes more: %v", err)
	}
}

// unread reports whether a byte belongs to the vector of the text that has none, which is never
// read.
func unread(at, length int) bool {
	first := length - dense.Rest(30, 40) + 5*dense.Stride(40)
	return first <= at && at < first+dense.Stride(40)
}

// An image of another format or space is intact, but rejected.
func TestOtherVersions(t *testing.T) {
	other := image(t, someVectors(), 40)
	other[8]++
	dense.Seal(other)
	if _, err := dense.Open(other, "space", nil); !errors.Is(err, dense.ErrVersion) || errors.Is(err, dense.ErrDamaged) || !strings.Contains(err.Error(), "format 2") {
		t.Error(err)
	}
	if _, err := dense.Open(image(t, someVectors(), 40), "other", nil); !errors.Is(err, dense.ErrVersion) {
		t.Error(err)
	}
}

// Nothing panics, whatever a file contains, even if its checksums are right.
func FuzzOpen(f *testing.F) {
	whole := image(f, someVectors(), 40)
	f.Add(whole)
	for i := range 60 { // right checksums of wrong sections
		bad := slices.Clone(whole)
		bad[12+i*(len(bad)-12)/60] ^= 0xff
		f.Add(bad)
		f.Add(whole[:i*len(whole)/60])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := dense.Open(data, "space", nil); err != nil && !errors.Is(err, dense.ErrDamaged) && !errors.Is(err, dense.ErrVersion) {
			t.Errorf("an error of no kind: %v", err)
		}
		data = slices.Clone(data)
		dense.Seal(data)
		s, err := dense.Open(data, "space", nil)
		if err != nil {
			return
		}
		v := make([]float32, s.Dimensions())
		v[0] = 1
		for _, dead := range [][]uint64{nil, {0x5555}} {
			for _, allow := range [][][]uint64{nil, {{0xff00}}} {
				hits, err := index(t, s.Live(dead)).Search(t.Context(), question(t, v), 3, allow)
				if err != nil && !errors.Is(err, dense.ErrDamaged) {
					t.Error(err)
				}
				for _, h := range hits {
					if !(h.Cosine >= -1 && h.Cosine <= 1) {
						t.Errorf("cosine %v", h.Cosine)
					}
				}
			}
		}
	})
}

// A segment is the same from a file, from memory, and from unaligned memory.
func TestOpenFile(t *testing.T) {
	const n = 3000
	img := image(t, clusters(1, n, 96), 96)
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, img, 0o600); err != nil {
		t.Fatal(err)
	}
	file := func() *dense.Live { // only the index may reference the mapping
		f, err := bm25.OpenMapped(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := dense.Open(f.Bytes(), "space", f)
		if err != nil {
			t.Fatal(err)
		}
		return s.Live(nil)
	}
	shifted := make([]byte, len(img)+8)
	at := 1 + (8-int(uintptr(unsafe.Pointer(&shifted[0]))%8))%8
	copy(shifted[at:], img)
	open := func(img []byte) *dense.Live {
		s, err := dense.Open(img, "space", nil)
		if err != nil {
			t.Fatal(err)
		}
		return s.Live(nil)
	}
	want := index(t, open(img))
	mappedFile, unaligned := index(t, file()), index(t, open(shifted[at:at+len(img)]))
	if err := os.Remove(name); err != nil && runtime.GOOS != "windows" {
		t.Fatal(err)
	}
	for i, q := range clusters(2, 20, 96) {
		runtime.GC()
		all := search(t, want, q, 10, nil)
		for name, x := range map[string]*dense.Index{"mapped": mappedFile, "unaligned": unaligned} {
			if diff := cmp.Diff(all, search(t, x, q, 10, nil)); diff != "" {
				t.Fatalf("question %d, %s (-memory +%s):\n%s", i, name, name, diff)
			}
		}
	}
}
