package bm25_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval/knowledge/index/bm25"
)

// Adding a range equals adding its texts one by one.
func TestBitmapRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got, want bm25.Bitmap
		for range rapid.IntRange(1, 3).Draw(t, "ranges") {
			first := rapid.IntRange(0, 200).Draw(t, "first")
			end := first + rapid.IntRange(0, 200).Draw(t, "texts")
			got.AddRange(first, end)
			for text := first; text < end; text++ {
				want.Add(text)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
	})
}
