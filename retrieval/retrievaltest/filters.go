package retrievaltest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
)

// filterCases returns filters of every type, and combined ones.
func filterCases() []filter.Filter {
	is := func(t filter.Type, key string, v any) filter.Filter {
		return filter.Filter{Type: t, Key: key, Value: v}
	}
	and := func(f ...filter.Filter) filter.Filter {
		return filter.Filter{Type: filter.And, Filters: f}
	}
	or := func(f ...filter.Filter) filter.Filter {
		return filter.Filter{Type: filter.Or, Filters: f}
	}
	return []filter.Filter{
		is(filter.Eq, "audience", "staff"),
		is(filter.Eq, "number", 7.0),
		is(filter.Eq, "number", "7"), // other type
		is(filter.Eq, "final", false),
		is(filter.Eq, "tags", "room-3"), // any element of a list
		is(filter.Eq, "nobody", "has this"),
		is(filter.Ne, "audience", "staff"),
		is(filter.Ne, "tags", "minutes"),
		is(filter.Gt, "number", 30.0),
		is(filter.Gte, "number", 30.0),
		is(filter.Lt, "day", "2024-03-05"),
		is(filter.Lte, "day", "2024-03-05"),
		is(filter.In, "number", []any{1.0, 2.0, 59.0, "3"}),
		is(filter.In, "tags", []any{"room-1", "room-2"}),
		is(filter.In, "tags", []any{}),
		is(filter.Nin, "audience", []any{"all", "board"}),
		is(filter.Nin, "number", []any{1.0}),
		is(filter.Prefix, "day", "2024-02-"),
		is(filter.Prefix, "tags", "room-"),
		is(filter.Gt, "tags", "room-2"),
		is(filter.Gte, "tags", "room-3"),
		is(filter.Lt, "tags", "minutes"),
		is(filter.Lte, "tags", "room-0"),
		is(filter.Nin, "tags", []string{"room-1", "room-2", "hr"}), // a Go list type
		and(is(filter.Eq, "audience", "all"), is(filter.Gte, "number", 20.0), is(filter.Eq, "final", true)),
		or(is(filter.Eq, "number", 3.0), is(filter.Eq, "audience", "board")),
		and(or(is(filter.Eq, "tags", "room-0"), is(filter.Eq, "tags", "hr")), is(filter.Ne, "final", true)),
		and(is(filter.Eq, "audience", "all"), is(filter.Eq, "audience", "staff")),
	}
}

// canteen is a question that exactly the minutes answer.
const canteen = "committee discussed the canteen menu"

// filters searches with each filter: the answer is the unfiltered ranking without documents that
// do not match, up to the requested number.
func filters(t *testing.T, base retrieval.Base) {
	for i, f := range filterCases() {
		match := matching(&f)
		texts := []string{canteen, "parental leave", "broken laptop and passwords"}
		if testing.Short() {
			texts = texts[i%len(texts):][:1]
		}
		for _, text := range texts {
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

// prefix tests that the filtered answer begins with the matching sources of the unfiltered one, in
// the same order and with the same scores. A score that is transferred as a relevance, with a
// floor that the filter changes, may differ by rounding.
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

// filtered searches concurrently for several tenants with different filters: no answer may be that
// of another filter.
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

// matching returns the ids of the documents of the corpus that match a filter.
func matching(f *filter.Filter) map[string]bool {
	match := map[string]bool{}
	for _, d := range Documents() {
		if f.Match(d.Attributes) {
			match[d.ID] = true
		}
	}
	return match
}

// hiddenIn returns the id of a document in an answer that does not match, "" if there is none.
func hiddenIn(res retrieval.Result, match map[string]bool) string {
	for _, s := range res.Sources {
		if !match[s.Doc] {
			return s.Doc
		}
	}
	return ""
}

func askFiltered(t *testing.T, base retrieval.Base, text string, candidates int, f *filter.Filter) retrieval.Result {
	t.Helper()
	q := query(base, text, candidates)
	q.Filter = f
	res, err := retrieve(t, t.Context(), base, q)
	if err != nil {
		t.Fatalf("%s, %q: %v", f, text, err)
	}
	return res
}
