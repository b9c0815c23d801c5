package index_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index"
)

// fatal is a test, benchmark or rapid test.
type fatal interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// write returns the image of one segment.
func write(t fatal, documents map[int64][]string) []byte {
	t.Helper()
	images, err := index.Write(documents)
	if err != nil || len(images) != 1 {
		t.Fatalf("%d images, %v", len(images), err)
	}
	return images[0]
}

// small returns documents with all features of a segment: one without chunks, one with empty
// texts, chunks that share a section, non-ASCII words, attributes that two share.
func small() map[int64][]string {
	return map[int64][]string{
		7: {"a.md", "First", `{"draft":true,"year":2024}`, "Leave", "parental leave", "Leave", "sick leave", "", "the end"},
		3: {"b", "", `{"draft":true,"year":2024}`, "", ""},
		9: {"empty.md", "Nothing in it", `{}`},
		4: {"日本語.md", "休暇", `{"tags":["休","b"]}`, "有給", "年に二十日の有給休暇がある。"},
	}
}

// flat returns the expected result of ReadAll.
func flat(documents map[int64][]string) (all []string) {
	for _, d := range slices.SortedFunc(maps.Values(documents), func(a, b []string) int { return strings.Compare(a[0], b[0]) }) {
		all = append(all, d...)
	}
	return all
}

func TestSegment(t *testing.T) {
	s, err := index.Open("x.seg", write(t, small()), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.ReadAll()
	if diff := cmp.Diff(flat(small()), got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if rows := s.Rows(); !slices.Equal(rows, []int64{3, 4, 7, 9}) {
		t.Errorf("rows %v", rows)
	}
}

// Every changed, missing or additional byte is noticed when the segment is opened or the text is
// read. The error names the file.
//
// Row K3 of deploy/CONTRIBUTING.md.
func TestDamagedSegment(t *testing.T) {
	whole := write(t, small())
	refused := func(image []byte, what string) {
		t.Helper()
		s, err := index.Open("x.seg", image, nil)
		if err == nil {
			_, err = s.ReadAll()
		}
		if err == nil || !strings.Contains(err.Error(), "x.seg") {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for at := range whole {
		for _, flip := range []byte{1, 0x80, 0xff} {
			bad := slices.Clone(whole)
			bad[at] ^= flip
			refused(bad, fmt.Sprintf("byte %d of %d xor %#x", at, len(whole), flip))
		}
		refused(whole[:at], fmt.Sprintf("%d of %d bytes", at, len(whole)))
	}
	refused(append(slices.Clone(whole), make([]byte, 8)...), "8 bytes more")
}

// Nothing panics, whatever a file contains, even if its checksums are right.
func FuzzSegment(f *testing.F) {
	whole := write(f, small())
	f.Add(whole)
	for i := range 100 {
		bad := slices.Clone(whole)
		bad[i*len(bad)/100] ^= 0xff
		f.Add(bad)
		f.Add(whole[:i*len(whole)/100])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sealed := slices.Clone(data)
		index.Seal(sealed)
		for _, image := range [][]byte{data, sealed} {
			if s, err := index.Open("fuzz", image, nil); err == nil {
				_, _ = s.ReadAll()
				s.Rows()
			}
		}
	})
}

// A mapped file can be read as long as it is referenced, even if it is removed.
func TestSegmentFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.seg")
	if err := os.WriteFile(name, write(t, small()), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := index.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil && runtime.GOOS != "windows" {
		t.Fatal(err)
	}
	for range 3 {
		runtime.GC()
		if got, err := s.ReadAll(); err != nil || !slices.Equal(got, flat(small())) {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

// A merged segment contains exactly the live documents of its sources.
func TestMergeSegments(t *testing.T) {
	word := rapid.SampledFrom([]string{"", "ant", "bee", "ant cat"})
	rapid.Check(t, func(t *rapid.T) {
		left, gone, next := map[int64][]string{}, map[int64]bool{}, int64(0)
		live := map[string]bool{}
		var segments []*index.Segment
		for range rapid.IntRange(1, 4).Draw(t, "segments") {
			documents := map[int64][]string{}
			for _, id := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-e]{1,2}`), 1, 6, rapid.ID[string]).Draw(t, "ids") {
				d := []string{id, word.Draw(t, "name"), rapid.SampledFrom([]string{`{}`, `{"k":"a"}`, `{"k":"b"}`}).Draw(t, "attributes")}
				for range rapid.IntRange(0, 3).Draw(t, "chunks") {
					d = append(d, word.Draw(t, "section"), word.Draw(t, "text"))
				}
				next++
				documents[next] = d
				if gone[next] = live[id] || rapid.Bool().Draw(t, "gone"); !gone[next] {
					live[id], left[next] = true, d
				}
			}
			s, err := index.Open("part", write(t, documents), nil)
			if err != nil {
				t.Fatal(err)
			}
			segments = append(segments, s)
		}
		merged, rows, err := index.MergeWithout(gone, segments...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := merged.ReadAll()
		if diff := cmp.Diff(flat(left), got); diff != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		slices.Sort(rows)
		if want := slices.Sorted(maps.Keys(left)); !slices.Equal(rows, want) || !slices.Equal(merged.Rows(), want) {
			t.Fatalf("rows %v, %v; want %v", rows, merged.Rows(), want)
		}
	})
}

// Each text has the sketch of its own terms, without those of title and section, also after
// merges.
func TestSketches(t *testing.T) {
	check := func(segment *index.Segment, texts int) {
		t.Helper()
		segments := index.Segments{segment.Without(nil, nil)}
		var k retrieval.Sketcher
		for d := range segments.InOrder() {
			for ref := range segments.Texts(d) {
				s, err := segments.Source(ref)
				if err != nil {
					t.Fatal(err)
				}
				for _, term := range analysis.Terms(s.Text) {
					k.Add([]byte(term))
				}
				if want := string(k.Append(nil)); s.Sketch != want {
					t.Errorf("%s#%d: sketch %x, want %x", s.Doc, s.Chunk, s.Sketch, want)
				}
				texts--
			}
		}
		if texts != 0 {
			t.Errorf("%d texts are missing", texts)
		}
	}
	opened := func(documents map[int64][]string) *index.Segment {
		s, err := index.Open("", write(t, documents), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first, second := opened(small()), opened(map[int64][]string{11: {"aa.md", "Second", `{}`, "Ant", "An ant and a bee", "Bee", "no leave"}})
	check(first, 5)
	check(second, 2)
	merged, _, err := index.MergeWithout(map[int64]bool{3: true}, first, second)
	if err != nil {
		t.Fatal(err)
	}
	check(merged, 6)
}
