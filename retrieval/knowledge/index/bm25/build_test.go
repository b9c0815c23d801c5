package bm25_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index/bm25"
)

// uniqueText returns a text of n words that occur in no other text.
func uniqueText(text, n int) string {
	var b strings.Builder
	for word := range n {
		fmt.Fprintf(&b, "w%dx%d ", text, word)
	}
	return b.String()
}

// The memory for words is limited, across segments and within one: a full segment returns an
// error, and the texts that it accepted are indexed as usual.
func TestTermsOfABuilderAreBounded(t *testing.T) {
	const limit = 16 << 10
	builder := &bm25.Builder{Limit: limit}
	var taken []string
	segments := 0
	flush := func() {
		t.Helper()
		segments++
		got, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		if want := image(t, new(bm25.Builder), taken); !bytes.Equal(got, want) {
			t.Fatalf("the image of %d texts is %d bytes, that of a fresh builder %d", len(taken), len(got), len(want))
		}
		if builder.Size() > limit/16 {
			t.Fatalf("%d bytes of terms are kept", builder.Size())
		}
		taken = taken[:0]
	}
	for i := range 300 {
		text := uniqueText(i, 1+i%40) + "common words"
		_, err := builder.Add(text)
		if errors.Is(err, bm25.ErrFull) && errors.Is(err, analysis.ErrFull) && len(taken) > 0 {
			flush()
			_, err = builder.Add(text)
		}
		if err != nil {
			t.Fatalf("text %d: %v", i, err)
		}
		taken = append(taken, text)
		if builder.Size() > limit {
			t.Fatalf("after text %d the terms take %d bytes", i, builder.Size())
		}
		if i%50 == 49 { // half of a document that must wait for the next segment
			before := builder.Len()
			for range 3 {
				if _, err := builder.Add(uniqueText(1000+i, 5)); err != nil {
					break
				}
			}
			builder.Truncate(before)
		}
	}
	flush()
	if segments < 5 {
		t.Errorf("only %d segments: the limit was not reached", segments)
	}
	for range 2 {
		if n, err := builder.Add(uniqueText(0, 2000)); !errors.Is(err, bm25.ErrFull) || builder.Len() != 0 {
			t.Errorf("a text of more words than there may be: number %d, %v, %d texts", n, err, builder.Len())
		}
	}
}
