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
	f([]bm25.Term{{"pay", .3, "pay-4021"}, {"4021", .3, "pay-4021"}, {"pay-4021", 1.5, "pay-4021"}, {"text", 1, ""}},
		[]bm25.Term{{"pay", 1, "pay-4021"}, {"4021", 1, "pay-4021"}, {"pay-4021", 1, "pay-4021"}, {"text", 1, ""}})
	f([]bm25.Term{{"pay", .2, "pay-4022"}, {"4022", .2, "pay-4022"}}, // in no text
		[]bm25.Term{{"pay", .2, "pay-4022"}, {"4022", .2, "pay-4022"}, {"pay-4022", .2, "pay-4022"}})
	f([]bm25.Term{{"vec", 1, "vec::with_capacity"}, {"capac", .3, "with_capacity"}, {"with_capacity", 1.5, "vec::with_capacity"}},
		[]bm25.Term{{"vec", 1, "vec::with_capacity"}, {"capac", 1, "with_capacity"}, {"with_capacity", 1, "vec::with_capacity"}, {"vec::with_capacity", 1, "vec::with_capacity"}})
	f([]bm25.Term{{"e0382", 1, "e0382"}}, []bm25.Term{{"e0382", 1, "e0382"}}) // no parts that could replace it
}
