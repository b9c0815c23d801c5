package retrievaltest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"sidenote/retrieval"
)

// filterCases returns filters of every type, and joined ones.
func filterCases() []retrieval.Filter {
	is := func(t retrieval.FilterType, key string, v any) retrieval.Filter {
		return retrieval.Filter{Type: t, Key: key, Value: v}
	}
	and := func(f ...retrieval.Filter) retrieval.Filter {
		return retrieval.Filter{Type: retrieval.FilterAnd, Filters: f}
	}
	or := func(f ...retrieval.Filter) retrieval.Filter {
		return retrieval.Filter{Type: retrieval.FilterOr, Filters: f}
	}
	return []retrieval.Filter{
		is(retrieval.FilterEq, "audience", "staff"),
		is(retrieval.FilterEq, "number", 7.0),
		is(retrieval.FilterEq, "number", "7"), // of another type
		is(retrieval.FilterEq, "final", false),
		is(retrieval.FilterEq, "tags", "room-3"), // any element of a list
		is(retrieval.FilterEq, "nobody", "has this"),
		is(retrieval.FilterNe, "audience", "staff"),
		is(retrieval.FilterNe, "tags", "minutes"),
		is(retrieval.FilterGt, "number", 30.0),
		is(retrieval.FilterGte, "number", 30.0),
		is(retrieval.FilterLt, "day", "2024-03-05"),
		is(retrieval.FilterLte, "day", "2024-03-05"),
		is(retrieval.FilterIn, "number", []any{1.0, 2.0, 59.0, "3"}),
		is(retrieval.FilterIn, "tags", []any{"room-1", "room-2"}),
		is(retrieval.FilterIn, "tags", []any{}),
		is(retrieval.FilterNin, "audience", []any{"all", "board"}),
		is(retrieval.FilterNin, "number", []any{1.0}),
		is(retrieval.FilterPrefix, "day", "2024-02-"),
		is(retrieval.FilterPrefix, "tags", "room-"),
		is(retrieval.FilterGt, "tags", "room-2"),
		is(retrieval.FilterGte, "tags", "room-3"),
		is(retrieval.FilterLt, "tags", "minutes"),
		is(retrieval.FilterLte, "tags", "room-0"),
		is(retrieval.FilterNin, "tags", []string{"room-1", "room-2", "hr"}), // Go's own type of list
		and(is(retrieval.FilterEq, "audience", "all"), is(retrieval.FilterGte, "number", 20.0), is(retrieval.FilterEq, "final", true)),
		or(is(retrieval.FilterEq, "number", 3.0), is(retrieval.FilterEq, "audience", "board")),
		and(or(is(retrieval.FilterEq, "tags", "room-0"), is(retrieval.FilterEq, "tags", "hr")), is(retrieval.FilterNe, "final", true)),
		and(is(retrieval.FilterEq, "audience", "all"), is(retrieval.FilterEq, "audience", "staff")),
	}
}

// canteen is a question that all minutes answer, and no other document.
const canteen = "committee discussed the canteen menu"

// filters asks with each filter: the answer is the unfiltered ranking without the
// documents that do not match, up to the number that was asked for.
func filters(t *testing.T, base retrieval.Base) {
	for _, f := range filterCases() {
		match := matching(&f)
		for _, text := range []string{canteen, "parental leave", "broken laptop and passwords"} {
			for _, n := range []int{1, 5, 50} {
				res := askFiltered(t, base, text, n, &f)
				if hidden := hiddenIn(res, match); hidden != "" || len(res.Sources) > n {
					t.Errorf("%s, %q: %d of %d sources, %q of a document that does not match", &f, text, len(res.Sources), n, hidden)
				}
				prefix(t, fmt.Sprintf("%s, %q", &f, text), res, ask(t, base, text, n), match)
			}
		}
		var want, got []string
		for id := range match {
			if strings.HasPrefix(id, "minutes/") {
				want = append(want, id)
			}
		}
		for _, s := range askFiltered(t, base, canteen, 50, &f).Sources {
			if strings.HasPrefix(s.Doc, "minutes/") && !slices.Contains(got, s.Doc) {
				got = append(got, s.Doc)
			}
		}
		if len(got) != min(50, len(want)) {
			t.Errorf("%s: %d of %d minutes are found", &f, len(got), len(want))
		}
	}
}

// prefix tests that the filtered answer begins with the matching sources of the
// unfiltered one, in the same order and with the same scores. A score that travels as a
// relevance, beside a floor that the filter changes, may be rounded in its last bits.
func prefix(t *testing.T, what string, filtered, whole retrieval.Result, match map[string]bool) {
	t.Helper()
	i := 0
	for _, s := range whole.Sources {
		if !match[s.Doc] {
			continue
		}
		if i == len(filtered.Sources) {
			t.Errorf("%s: %s#%d is missing", what, s.Doc, s.Chunk)
			return
		}
		if got := filtered.Sources[i]; got.Doc != s.Doc || got.Chunk != s.Chunk || math.Abs(got.Score-s.Score) > 1e-12*s.Score {
			t.Errorf("%s: number %d is %s#%d with %v; without a filter it is %s#%d with %v", what, i, got.Doc, got.Chunk, got.Score, s.Doc, s.Chunk, s.Score)
			return
		}
		i++
	}
}

// filtered asks for several tenants at once with different filters: nobody gets an answer
// that is another filter's.
func filtered(t *testing.T, base retrieval.Base) {
	cases := filterCases()
	want := make([]string, len(cases))
	for i := range cases {
		want[i] = describe(askFiltered(t, base, canteen, 7, &cases[i]))
	}
	var all sync.WaitGroup
	for tenant := range 6 {
		all.Go(func() {
			for j := range 2 * len(cases) {
				i := (5*tenant + j) % len(cases)
				q := query(base, canteen, 7)
				q.Tenant, q.Filter = fmt.Sprintf("tenant-%d", tenant), &cases[i]
				if res, err := base.Retrieve(t.Context(), q); err != nil || describe(res) != want[i] {
					t.Errorf("%s of %s: %v\n%s\nalone:\n%s", &cases[i], q.Tenant, err, describe(res), want[i])
				}
			}
		})
	}
	all.Wait()
}

// matching returns the ids of the documents of the corpus that a filter chooses.
func matching(f *retrieval.Filter) map[string]bool {
	match := map[string]bool{}
	for _, d := range Documents() {
		if f.Match(d.Attributes) {
			match[d.ID] = true
		}
	}
	return match
}

// hiddenIn returns a document in an answer that does not match, "" for none.
func hiddenIn(res retrieval.Result, match map[string]bool) string {
	for _, s := range res.Sources {
		if !match[s.Doc] {
			return s.Doc
		}
	}
	return ""
}

func askFiltered(t *testing.T, base retrieval.Base, text string, candidates int, f *retrieval.Filter) retrieval.Result {
	t.Helper()
	q := query(base, text, candidates)
	q.Filter = f
	res, err := retrieve(t, t.Context(), base, q)
	if err != nil {
		t.Fatalf("%s, %q: %v", f, text, err)
	}
	return res
}
