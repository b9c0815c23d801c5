package bm25_test

import (
	"context"
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
)

// small returns an image with all features.
func small(t fatal) []byte {
	t.Helper()
	texts := []string{"", strings.Repeat("cat ", 100), "梵語 parseURL"}
	for _, text := range corpus(12, 6) {
		texts = append(texts, text+" cat")
	}
	return image(t, new(bm25.Builder), texts)
}

// Every changed, missing or additional byte is noticed.
func TestDamageIsNoticed(t *testing.T) {
	whole := small(t)
	for at := range whole {
		for _, flip := range []byte{1, 0x80, 0xff} {
			bad := slices.Clone(whole)
			bad[at] ^= flip
			if _, err := bm25.Open(bad, nil); !errors.Is(err, bm25.ErrDamaged) {
				t.Fatalf("byte %d of %d xor %#x: %v", at, len(whole), flip, err)
			}
		}
		if _, err := bm25.Open(whole[:at], nil); !errors.Is(err, bm25.ErrDamaged) {
			t.Fatalf("%d of %d bytes: %v", at, len(whole), err)
		}
	}
	if _, err := bm25.Open(append(slices.Clone(whole), make([]byte, 8)...), nil); !errors.Is(err, bm25.ErrDamaged) {
		t.Errorf("8 bytes more: %v", err)
	}
	bad := slices.Clone(whole)
	bad[len(bad)-1] ^= 1
	if _, err := bm25.Open(bad, nil); err == nil || !strings.HasSuffix(err.Error(), ": strings") {
		t.Errorf("the last byte: %v; want the section named", err)
	}
}

// An image of another format or analyser is intact, but rejected.
func TestOtherVersions(t *testing.T) {
	for name, at := range map[string]int{"format": 8, "analyser": 32} {
		other := small(t)
		other[at]++
		bm25.Seal(other)
		if _, err := bm25.Open(other, nil); !errors.Is(err, bm25.ErrVersion) || errors.Is(err, bm25.ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nothing panics, whatever a file contains, even if its checksums are right.
func FuzzOpen(f *testing.F) {
	whole := small(f)
	f.Add(whole)
	for i := range 100 { // right checksums of wrong contents
		bad := slices.Clone(whole)
		bad[bm25.HeaderSize+i*(len(bad)-bm25.HeaderSize)/100] ^= 0xff
		f.Add(bad)
		f.Add(whole[:i*len(whole)/100])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := bm25.Open(data, nil); err != nil && !errors.Is(err, bm25.ErrDamaged) && !errors.Is(err, bm25.ErrVersion) {
			t.Errorf("an error of no kind: %v", err)
		}
		data = slices.Clone(data)
		bm25.Seal(data)
		s, err := bm25.Open(data, nil)
		if err != nil {
			return
		}
		good := open(t, whole)
		for _, dead := range []bm25.Bitmap{nil, {0x5555}} {
			live := []*bm25.Live{s.Live(dead), good.Live(nil)}
			x := bm25.NewIndex(live, bm25.InOrder)
			x.Sample(0.3)
			x.Meaning("cat")
			for _, q := range append(queries(5), []bm25.Term{{Text: "cat", Weight: 1}, {Text: "w1", Weight: 1}}) {
				if _, err := x.Search(context.Background(), q, 3, nil, nil); err != nil {
					t.Error(err)
				}
			}
			if _, _, err := bm25.Merge(live, bm25.InOrder); err != nil {
				t.Error(err)
			}
		}
	})
}

// A segment is the same from a file, from memory, and from unaligned memory.
func TestOpenFile(t *testing.T) {
	img := image(t, new(bm25.Builder), corpus(3000, 30))
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, img, 0o600); err != nil {
		t.Fatal(err)
	}
	file := func() *bm25.Live { // only the index may reference the mapping
		s, err := bm25.OpenFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return s.Live(nil)
	}
	shifted := make([]byte, len(img)+8)
	at := 1 + (8-int(uintptr(unsafe.Pointer(&shifted[0]))%8))%8
	copy(shifted[at:], img)
	want := bm25.NewIndex([]*bm25.Live{open(t, img).Live(nil)}, bm25.InOrder)
	mapped := bm25.NewIndex([]*bm25.Live{file()}, bm25.InOrder)
	unaligned := bm25.NewIndex([]*bm25.Live{open(t, shifted[at:at+len(img)]).Live(nil)}, bm25.InOrder)
	if err := os.Remove(name); err != nil && runtime.GOOS != "windows" {
		t.Fatal(err)
	}
	for i, q := range queries(50) {
		runtime.GC()
		all, err := want.Search(t.Context(), q, 10, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, x := range map[string]*bm25.Index{"mapped": mapped, "unaligned": unaligned} {
			hits, err := x.Search(t.Context(), q, 10, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(all, hits); diff != "" {
				t.Fatalf("query %d, %s (-memory +%s):\n%s", i, name, name, diff)
			}
		}
	}
}

// A file that is not an image is an error that names it.
func TestOpenFileRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string][]byte{"empty": nil, "short": []byte("SNbm25"), "cut": small(t)[:200]} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := bm25.OpenFile(file); !errors.Is(err, bm25.ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := bm25.OpenFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := bm25.OpenFile(dir); err == nil {
		t.Error("a folder was opened")
	}
}
