package bm25_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/index/bm25"
)

// The weights of terms depend on whether a text contains the whole identifier.
func TestSettle(t *testing.T) {
	x := build(t, []string{"refunds PAY-4021", "Vec and with_capacity", "plain text"})
	f := func(want, terms []bm25.Term) {
		t.Helper()
		if diff := cmp.Diff(want, x.WeighIdentifiers(terms, nil)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	plain := []bm25.Term{{Text: "plain", Weight: 1}}
	f(plain, plain)
	f([]bm25.Term{{Text: "pay", Weight: .3, Whole: "pay-4021"}, {Text: "4021", Weight: .3, Whole: "pay-4021"}, {Text: "pay-4021", Weight: 1.5, Whole: "pay-4021"}, {Text: "text", Weight: 1, Whole: ""}},
		[]bm25.Term{{Text: "pay", Weight: 1, Whole: "pay-4021"}, {Text: "4021", Weight: 1, Whole: "pay-4021"}, {Text: "pay-4021", Weight: 1, Whole: "pay-4021"}, {Text: "text", Weight: 1, Whole: ""}})
	f([]bm25.Term{{Text: "4022", Weight: .2, Whole: "pay-4022"}}, // in no text
		[]bm25.Term{{Text: "pay", Weight: .2, Whole: "pay-4022"}, {Text: "4022", Weight: .2, Whole: "pay-4022"}, {Text: "pay-4022", Weight: .2, Whole: "pay-4022"}})
	f([]bm25.Term{{Text: "vec", Weight: 1, Whole: "vec::with_capacity"}, {Text: "capac", Weight: .3, Whole: "with_capacity"}, {Text: "with_capacity", Weight: 1.5, Whole: "vec::with_capacity"}},
		[]bm25.Term{{Text: "vec", Weight: 1, Whole: "vec::with_capacity"}, {Text: "capac", Weight: 1, Whole: "with_capacity"}, {Text: "with_capacity", Weight: 1, Whole: "vec::with_capacity"}, {Text: "vec::with_capacity", Weight: 1, Whole: "vec::with_capacity"}})
	f([]bm25.Term{{Text: "e0382", Weight: 1, Whole: "e0382"}}, []bm25.Term{{Text: "e0382", Weight: 1, Whole: "e0382"}}) // no parts that could replace it
}
