package retrievaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
)

// A Changing base can replace its documents while it is searched.
type Changing interface {
	retrieval.Base
	// Change replaces all documents by docs and returns when that is done.
	Change(t *testing.T, docs []Document)
}

// A Breakable base uses a service that a test can break.
type Breakable interface {
	retrieval.Base
	Break(f Fault) // "" repairs it
}

// A Fault is a kind of failure of a service.
type Fault string

// The faults.
const (
	Down    Fault = "down"    // refuses requests
	Slow    Fault = "slow"    // accepts requests and never answers
	Failing Fault = "failing" // answers with an error
	Garbled Fault = "garbled" // answers with garbage
)

// tenants searches concurrently for several tenants, with and without a filter: the answer depends
// on the question only.
func tenants(t *testing.T, base retrieval.Base) {
	questions := []string{"parental leave", "broken laptop", "passwords", "booking flights", "canteen menu"}
	want := make([]string, len(questions))
	for i, text := range questions {
		want[i] = describe(ask(t, base, text, 50))
	}
	times := 25
	if testing.Short() {
		times = 10 // each question twice
	}
	var all sync.WaitGroup
	for tenant := range 8 {
		all.Go(func() {
			for j := range times {
				i := (tenant + j) % len(questions)
				q := query(base, questions[i], 50)
				q.Tenant = fmt.Sprintf("tenant-%d", tenant)
				if tenant%2 == 0 {
					q.Filter = &filter.Filter{Type: filter.Ne, Key: "audience", Value: "nobody"}
				}
				asked := slices.Clone(q.Bases)
				res, err := retrieval.WithTexts{Next: base}.Retrieve(t.Context(), q)
				if got := describe(res); err != nil || got != want[i] {
					t.Errorf("%q of %s: %v\n%s\nalone:\n%s", questions[i], q.Tenant, err, got, want[i])
				}
				if !slices.Equal(q.Bases, asked) {
					t.Errorf("the query was changed to %v", q.Bases)
				}
			}
		})
	}
	all.Wait()
}

// kept tests that an answer does not change during later searches.
func kept(t *testing.T, base retrieval.Base) {
	first := ask(t, base, "committee discussed the canteen menu", 50)
	before, text := describe(first), first.Sources[0].Text
	for _, question := range []string{"parental leave", "broken laptop", "committee"} {
		ask(t, base, question, 50)
	}
	if describe(first) != before || first.Sources[0].Text != text {
		t.Errorf("an answer changed after it was given: %s\nbefore: %s", describe(first), before)
	}
}

// edition returns the corpus with the name of the edition in each of the minutes.
func edition(name string) []Document {
	docs := Documents()
	for i := range docs {
		docs[i].Text = strings.Replace(docs[i].Text, "The committee", "In edition"+name+" the committee", 1)
	}
	return docs
}

// An observer records the edition of each generation.
type observer struct {
	mu       sync.Mutex
	editions map[string]string // by generation
	answers  int
}

// note checks that an answer holds one edition only, and always the same one for its generation.
func (o *observer) note(t *testing.T, res retrieval.Result) (edition string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers++
	for _, s := range res.Sources {
		of := "first"
		if strings.Contains(s.Text, "editionsecond") {
			of = "second"
		}
		if edition != "" && of != edition {
			t.Errorf("one answer holds both editions")
		}
		edition = of
	}
	if len(res.Sources) == 0 || len(res.Bases) != 1 || res.Bases[0].Generation == "" {
		t.Errorf("%d sources of %v", len(res.Sources), res.Bases)
		return edition
	}
	generation := res.Bases[0].Generation
	if before, known := o.editions[generation]; known && before != edition {
		t.Errorf("generation %s is of edition %s and of edition %s", generation, before, edition)
	}
	o.editions[generation] = edition
	return edition
}

// change replaces the documents while they are searched: each answer holds either the old or the
// new documents, never both, as its generation says.
func change(t *testing.T, base retrieval.Base) {
	c, ok := base.(Changing)
	if !ok {
		t.Skip("not Changing")
	}
	const text = "committee discussed the canteen menu"
	rounds, askers := 6, 4
	if testing.Short() {
		rounds, askers = 3, 2
	}
	c.Change(t, edition("first"))
	o := &observer{editions: map[string]string{}}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range askers {
		readers.Go(func() {
			for {
				res, err := retrieval.WithTexts{Next: base}.Retrieve(t.Context(), query(base, text, 50))
				if err != nil {
					t.Errorf("while it changes: %v", err)
					return
				}
				o.note(t, res)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range rounds {
		name := []string{"second", "first"}[i%2]
		before, err := retrieve(t, t.Context(), base, query(base, text, 50)) // Ref may be stale
		if err != nil {
			t.Errorf("before change %d: %v", i, err)
			break
		}
		c.Change(t, edition(name))
		res, err := retrieve(t, t.Context(), base, query(base, text, 50))
		if err != nil {
			t.Errorf("after change %d: %v", i, err)
			break
		}
		if got := o.note(t, res); got != name {
			t.Errorf("after change %d: edition %s, want %s", i, got, name)
		}
		if res.Bases[0] == before.Bases[0] {
			t.Errorf("change %d does not show in the generation", i)
		}
	}
	close(done)
	readers.Wait()
	if len(o.editions) < 2 || o.answers <= rounds {
		t.Errorf("%d answers in %d generations: nothing was tested", o.answers, len(o.editions))
	}
	c.Change(t, Documents())
}

// faults breaks the service: each search returns an error in time, and the next search after the
// repair works.
func faults(t *testing.T, base retrieval.Base) {
	b, ok := base.(Breakable)
	if !ok {
		t.Skip("not Breakable")
	}
	defer b.Break("")
	want := describe(ask(t, base, "parental leave", 50))
	for _, f := range []Fault{Down, Slow, Failing, Garbled} {
		b.Break(f)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		res, err := retrieve(t, ctx, base, query(base, "parental leave", 50))
		cancel()
		if !errors.Is(err, retrieval.ErrUnavailable) || !res.Reason.Failed() || len(res.Sources) > 0 {
			t.Errorf("%s: %d sources, reason %q, %v", f, len(res.Sources), res.Reason, err)
		}
		if f == Slow && res.Reason != retrieval.ReasonTimeout {
			t.Errorf("%s: reason %q", f, res.Reason)
		}
		if base.Ref().Generation == "" {
			t.Errorf("%s: the generation is lost", f)
		}
		b.Break("")
		if got := describe(ask(t, base, "parental leave", 50)); got != want {
			t.Errorf("after %s:\n%s\nbefore:\n%s", f, got, want)
		}
	}
}
