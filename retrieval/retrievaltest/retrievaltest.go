// Package retrievaltest has a contract test suite for knowledge bases, and a Retriever that fails
// on request.
package retrievaltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval"
)

// patience is the time after which a call counts as hanging.
const patience = 20 * time.Second

// A Document is a document for a base under test.
type Document struct {
	ID   string // a path ending in .md
	Text string // Markdown
	// Attributes are strings, float64s, bools and lists of strings; nil for none.
	Attributes map[string]any
}

// Documents returns the corpus of the suite. Its documents are so different that any sensible
// engine ranks them alike for the suite's questions.
func Documents() []Document {
	docs := []Document{
		{ID: "leave.md", Text: "# Leave policy\n\n## Parental leave\n\nEvery parent may take sixteen weeks of parental leave.\n\n## Sick leave\n\nReport an illness on the first morning of absence.\n", Attributes: map[string]any{"audience": "all", "tags": []string{"hr", "family"}, "version": 2.0}},
		{ID: "travel/booking.md", Text: "# Booking travel\n\nFlights are booked through the travel portal two weeks ahead.\n"},
		{ID: "it/laptops.md", Text: "# Laptops\n\nA broken laptop is replaced by the service desk within a day.\n", Attributes: map[string]any{"audience": "staff", "tags": []string{"it"}}},
		{ID: "it/passwords.md", Text: "# Passwords\n\nPasswords hold at least fourteen characters and never expire.\n", Attributes: map[string]any{"audience": "staff", "tags": []string{"it", "security"}}},
	}
	for i := range 60 {
		docs = append(docs, Document{
			ID:   fmt.Sprintf("minutes/%02d.md", i),
			Text: fmt.Sprintf("# Minutes %d\n\nThe committee met in room %d and discussed the canteen menu, chairs and the weather.\n", i, i),
			Attributes: map[string]any{
				"audience": []string{"all", "staff", "board"}[i%3], "day": fmt.Sprintf("2024-%02d-%02d", 1+i/10, 1+i%10),
				"number": float64(i), "final": i%2 == 0, "tags": []string{"minutes", fmt.Sprintf("room-%d", i%7)},
			},
		})
	}
	return docs
}

// Run tests the contract of retrieval.Base. open returns a Base that has indexed all of docs. A
// Base that is also Changing or Breakable is tested while it changes, and while its service fails.
func Run(t *testing.T, open func(t *testing.T, docs []Document) retrieval.Base) {
	t.Helper()
	base := open(t, Documents())
	for name, test := range map[string]func(*testing.T, retrieval.Base){
		"state":    state,
		"ranking":  ranking,
		"subjects": subjects,
		"limit":    limit,
		"sources":  sources,
		"nothing":  nothing,
		"stable":   stable,
		"late":     late,
		"tenants":  tenants,
		"kept":     kept,
		"filters":  filters,
		"filtered": filtered,
		"change":   change,
		"faults":   faults,
	} {
		t.Run(name, func(t *testing.T) { test(t, base) })
	}
}

func state(t *testing.T, base retrieval.Base) {
	ref := base.Ref()
	if !regexp.MustCompile(`^[a-z0-9_-]{1,64}$`).MatchString(ref.Knowledge) {
		t.Errorf("id %q", ref.Knowledge)
	}
	if !regexp.MustCompile(`^[0-9a-f]+$`).MatchString(ref.Generation) {
		t.Errorf("generation %q, want hex", ref.Generation)
	}
	if again := base.Ref(); again != ref {
		t.Errorf("state changed without a change: %v, then %v", ref, again)
	}
}

func ranking(t *testing.T, base retrieval.Base) {
	for text, want := range map[string]string{
		"How many weeks of parental leave do I get?": "leave.md",
		"my laptop is broken":                        "it/laptops.md",
		"how long must passwords be":                 "it/passwords.md",
		"booking flights for travel":                 "travel/booking.md",
	} {
		res := ask(t, base, text, 50)
		if len(res.Sources) == 0 || res.Sources[0].Doc != want {
			t.Errorf("%q: best of %d sources is not %s", text, len(res.Sources), want)
		}
	}
}

// subjects asks about two subjects at once, and about one that is in no document.
func subjects(t *testing.T, base retrieval.Base) {
	found := map[string]bool{}
	for i, s := range ask(t, base, "parental leave, and a broken laptop", 50).Sources {
		found[s.Doc] = found[s.Doc] || i < 3
	}
	if !found["leave.md"] || !found["it/laptops.md"] {
		t.Errorf("both subjects are not among the best three: %v", found)
	}
	res := ask(t, base, "xylophone zebra quasar", 50)
	if len(res.Sources) > 0 && !(res.Sources[0].Score < res.Floor) {
		t.Errorf("a question about nothing here: best %v, floor %v", res.Sources[0].Score, res.Floor)
	}
}

func limit(t *testing.T, base retrieval.Base) {
	most := ask(t, base, "committee discussed the canteen menu", 50).Sources
	for _, n := range []int{1, 2, 7, 50} {
		res := ask(t, base, "committee discussed the canteen menu", n)
		for i, s := range res.Sources[:min(len(res.Sources), len(most))] {
			if s.Doc != most[i].Doc || s.Chunk != most[i].Chunk {
				t.Errorf("%d candidates asked: number %d is %s#%d, of more %s#%d", n, i, s.Doc, s.Chunk, most[i].Doc, most[i].Chunk)
				break
			}
		}
		if got := len(res.Sources); got == 0 || got > n {
			t.Errorf("%d candidates asked, got %d", n, got)
		}
		if !slices.IsSortedFunc(res.Sources, func(a, b retrieval.Source) int { return cmp.Compare(b.Score, a.Score) }) {
			t.Errorf("%d candidates: not best first", n)
		}
	}
}

func sources(t *testing.T, base retrieval.Base) {
	known := map[string]bool{}
	for _, d := range Documents() {
		known[d.ID] = true
	}
	res := ask(t, base, "parental leave", 50)
	if len(res.Sources) == 0 {
		t.Fatal("no sources")
	}
	if math.IsNaN(res.Floor) || math.IsInf(res.Floor, 0) {
		t.Errorf("floor %v", res.Floor)
	}
	for _, s := range res.Sources {
		switch {
		case s.Type != "rag", s.Knowledge != base.Ref().Knowledge, !known[s.Doc], s.Chunk < 0, s.Name == "":
			t.Errorf("identity of %+v", s)
		case s.Text == "", strings.Trim(s.Text, "\n") != s.Text:
			t.Errorf("text of %s#%d: %q", s.Doc, s.Chunk, s.Text)
		case math.IsNaN(s.Score), math.IsInf(s.Score, 0):
			t.Errorf("score of %s#%d: %v", s.Doc, s.Chunk, s.Score)
		}
	}
}

func nothing(t *testing.T, base retrieval.Base) {
	for _, text := range []string{"", " ", "?!", "\x00\xff"} {
		res := ask(t, base, text, 50)
		if len(res.Sources) != 0 || res.Reason != retrieval.ReasonNoQueryTerms {
			t.Errorf("%q: %d sources, reason %q", text, len(res.Sources), res.Reason)
		}
	}
}

func stable(t *testing.T, base retrieval.Base) {
	const text = "committee discussed the canteen menu" // many equal scores
	want := describe(ask(t, base, text, 50))
	for range 3 {
		if got := describe(ask(t, base, text, 50)); got != want {
			t.Fatalf("asked again:\n%s\nbefore:\n%s", got, want)
		}
	}
}

// late accepts an answer or an error, because a search may end before it checks its context.
func late(t *testing.T, base retrieval.Base) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := retrieve(t, ctx, base, query(base, "parental leave", 50)); err != nil && !errors.Is(err, retrieval.ErrUnavailable) {
		t.Errorf("after the caller left: %v does not wrap ErrUnavailable", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	res, err := retrieve(t, ctx, base, query(base, "parental leave", 50))
	if err != nil && (!errors.Is(err, retrieval.ErrUnavailable) || res.Reason != retrieval.ReasonTimeout) {
		t.Errorf("after the deadline: reason %q, %v", res.Reason, err)
	}
}

func query(base retrieval.Base, text string, candidates int) retrieval.Query {
	settings := retrieval.DefaultSettings()
	settings.NumCandidates = candidates
	return retrieval.Query{Tenant: "suite", Bases: []retrieval.Ref{base.Ref()}, Text: text, Settings: settings}
}

func ask(t *testing.T, base retrieval.Base, text string, candidates int) retrieval.Result {
	t.Helper()
	res, err := retrieve(t, t.Context(), base, query(base, text, candidates))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if res.Reason != retrieval.ReasonNoQueryTerms && !slices.Equal(res.Bases, []retrieval.Ref{base.Ref()}) {
		t.Errorf("%q: searched %v, want just %v", text, res.Bases, base.Ref())
	}
	return res
}

// retrieve fails the test if the call hangs.
func retrieve(t *testing.T, ctx context.Context, base retrieval.Base, q retrieval.Query) (retrieval.Result, error) {
	t.Helper()
	type answer struct {
		res retrieval.Result
		err error
	}
	done := make(chan answer, 1)
	go func() {
		res, err := retrieval.WithTexts{Next: base}.Retrieve(ctx, q)
		done <- answer{res, err}
	}()
	select {
	case a := <-done:
		return a.res, a.err
	case <-time.After(patience):
		t.Fatalf("%q: no answer in %v", q.Text, patience)
		return retrieval.Result{}, nil
	}
}

// describe returns a text that is equal for equal results.
func describe(res retrieval.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %q\n", res.Bases, res.Reason)
	for _, s := range res.Sources {
		fmt.Fprintf(&b, "%s#%d %v\n", s.Doc, s.Chunk, s.Score)
	}
	return b.String()
}
