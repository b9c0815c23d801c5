package knowledge_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// basesByID maps ids to bases, for Group.Base.
type basesByID map[string]*knowledge.Base

// group returns a group of the bases. Floors are measured synchronously.
func (s basesByID) group() *knowledge.Group {
	return &knowledge.Group{
		Base: func(id string) *knowledge.Base { return s[id] }, Wait: time.Minute,
		Start: func(f func(context.Context)) { f(context.Background()) },
	}
}

// refs returns references to bases without generations.
func refs(ids ...string) (list []retrieval.Ref) {
	for _, id := range ids {
		list = append(list, retrieval.Ref{Knowledge: id})
	}
	return list
}

// holding returns a base of documents.
func holding(t testing.TB, id string, texts map[string]string) *knowledge.Base {
	t.Helper()
	b := knowledge.New(id)
	b.Swap(build(t, texts))
	return b
}

// asOne converts sources of several bases to those of one base, in which each document is called
// base/id.
func asOne(sources []retrieval.Source) []retrieval.Source {
	out := slices.Clone(sources)
	for i := range out {
		out[i].Doc, out[i].Knowledge = out[i].Knowledge+"/"+out[i].Doc, "all"
	}
	return out
}

// drawDocuments draws documents with few distinct words, so that many scores are nearly equal.
func drawDocuments(t *rapid.T) []chunk.Document {
	var list []chunk.Document
	for _, id := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-d][0-9]`), 0, 12, rapid.ID[string]).Draw(t, "ids") {
		words := rapid.SliceOfN(rapid.SampledFrom(strings.Fields("ant bee cat dog elk # fox")), 1, 12).Draw(t, "words")
		filler := strings.Repeat("the of and ", rapid.SampledFrom([]int{0, 60}).Draw(t, "filler")) // makes long sections chunks of their own
		list = append(list, chunk.Document{
			ID: id, Text: strings.ReplaceAll(strings.Join(words, " "), "#", "\n\n"+filler+"\n\n# S\n\n") + "\n\n" + filler, Markdown: true, Attributes: knowledgetest.DrawAttributes(t),
		})
	}
	return list
}

// The bases of a query answer like one base that has all their documents under the ids base/id:
// the same sources in the same order with the same scores. The floor is the same for one base; of
// several, each is measured by its own words. This holds for any number of segments, with deleted
// and rewritten documents, with any filter, and whatever other bases contain. The ids of the bases
// have one length, so that the ids base/id are in the order of base, then id.
func TestGroupIsOneBase(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		bases, left := basesByID{}, map[string]map[string]chunk.Document{}
		for i := range rapid.IntRange(1, 8).Draw(t, "bases") {
			id := fmt.Sprintf("b%d", i)
			groups, documents := make([][]chunk.Document, rapid.IntRange(1, 3).Draw(t, "segments")), map[string]chunk.Document{}
			for i := range groups {
				groups[i] = drawDocuments(t)
				for _, d := range groups[i] {
					documents[d.ID] = d
				}
			}
			c, err := knowledge.Segmented(ctx, deps(), groups...)
			if err != nil {
				t.Fatal(err)
			}
			bases[id], left[id] = knowledge.New(id), documents
			bases[id].Swap(c)
		}
		g := bases.group()
		named := rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(bases))), 1, len(bases), rapid.ID[string]).Draw(t, "named")
		var all []chunk.Document
		for _, id := range named {
			for _, d := range left[id] {
				d.ID = id + "/" + d.ID
				all = append(all, d)
			}
		}
		content, _, err := knowledge.FromDocuments(ctx, all, deps())
		if err != nil {
			t.Fatal(err)
		}
		one := knowledge.New("all")
		one.Swap(content)
		for range 6 {
			words := rapid.SliceOfN(rapid.SampledFrom(strings.Fields("ant bee cat dog elk fox gnu")), 1, 4).Draw(t, "question")
			q := retrieval.Query{Text: strings.Join(words, " "), Bases: refs(named...)}
			q.Settings.NumCandidates = rapid.IntRange(1, 60).Draw(t, "candidates")
			if rapid.Bool().Draw(t, "filtered") {
				q.Filter = new(drawFilter(t, 2))
			}
			got, err := retrieval.WithTexts{Next: g}.Retrieve(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			want, err := retrieval.WithTexts{Next: one}.Retrieve(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			near := cmpopts.EquateApprox(0, 1e-6)
			if diff := cmp.Diff(want.Sources, asOne(got.Sources), near, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("sources (-one +several):\n%s", diff)
			}
			if len(named) == 1 && math.Abs(got.Floor-want.Floor) > 1e-6 || got.Reason != want.Reason || got.Provisional || got.Partial || got.Retrieved != want.Retrieved {
				t.Fatalf("several: %+v\none: %+v", got, want)
			}
			var searched []retrieval.Ref
			for _, id := range slices.Sorted(slices.Values(named)) {
				searched = append(searched, bases[id].Ref())
			}
			if diff := cmp.Diff(searched, got.Bases); diff != "" {
				t.Fatalf("searched (-want +got):\n%s", diff)
			}
		}
	})
}

// A base about a subject is no longer ranked below one that only mentions it.
func TestGroupRanksAcross(t *testing.T) {
	about, mentions := map[string]string{}, map[string]string{}
	for i := range 40 {
		about[fmt.Sprintf("a%d.md", i)] = fmt.Sprintf("The git command number %d of git.", i)
		mentions[fmt.Sprintf("m%d.md", i)] = fmt.Sprintf("A recipe with onions, number %d.", i)
	}
	about["rebase.md"] = "How git moves commits by a rebase of a branch."
	mentions["m0.md"] = "A recipe that somebody keeps in git, with onions."
	bases := basesByID{"cook": holding(t, "cook", mentions), "git": holding(t, "git", about)}
	q := retrieval.Query{Text: "git rebase", Bases: refs("cook", "git"), Settings: retrieval.DefaultSettings()}
	res, err := bases.group().Retrieve(t.Context(), q)
	if err != nil || len(res.Sources) == 0 || res.Sources[0].Doc != "rebase.md" {
		t.Fatalf("%+v, %v", res.Sources, err)
	}
	for _, s := range res.Sources[1:] {
		if s.Score >= res.Sources[0].Score {
			t.Errorf("%s has %v", s.Doc, s.Score)
		}
	}
}

// told records the calls of Group.Searched.
type told []string

func (x *told) searched(id string, reason retrieval.Reason) {
	*x = append(*x, fmt.Sprintf("%s:%s", id, reason))
}

// A failing base does not affect the others.
func TestGroupLeavesOut(t *testing.T) {
	handbook := knowledgetest.Handbook()
	whole := func() basesByID {
		return basesByID{"a": holding(t, "a", handbook), "b": holding(t, "b", map[string]string{"x.md": "Parental guidance."}), "c": holding(t, "c", map[string]string{"y.md": "Parents."})}
	}
	part := knowledge.New("b")
	part.Swap(knowledge.PartOf(whole()["b"].Content()))
	for name, c := range map[string]struct {
		change func(basesByID)
		ids    []string
		want   string // bases searched, reason, calls of Searched
	}{
		"whole":       {func(basesByID) {}, []string{"a", "b"}, "a b  [a: b:]"},
		"no match":    {func(s basesByID) { s["b"] = holding(t, "b", nil) }, []string{"a", "b"}, "a b  [a: b:no-match]"},
		"indexing":    {func(s basesByID) { s["b"] = knowledge.New("b") }, []string{"a", "b", "c"}, "a c indexing [a: b:indexing c:]"},
		"one left":    {func(s basesByID) { s["b"] = knowledge.New("b") }, []string{"a", "b"}, "a indexing [a: b:indexing]"},
		"gone":        {func(s basesByID) { delete(s, "b") }, []string{"a", "b"}, "a indexing [a: b:indexing]"},
		"in part":     {func(s basesByID) { s["b"] = part }, []string{"a", "b"}, "a b indexing [a: b:indexing]"},
		"broken":      {func(s basesByID) { s["b"] = broken(t, "b") }, []string{"a", "b", "c"}, "a c retrieval-error [b:retrieval-error a: c:]"},
		"one sound":   {func(s basesByID) { s["b"] = broken(t, "b") }, []string{"a", "b"}, "a retrieval-error [b:retrieval-error a:]"},
		"two broken":  {func(s basesByID) { s["b"], s["c"] = broken(t, "b"), broken(t, "c") }, []string{"a", "b", "c"}, "a retrieval-error [b:retrieval-error c:retrieval-error a:]"},
		"all broken":  {func(s basesByID) { s["b"], s["c"] = broken(t, "b"), broken(t, "c") }, []string{"b", "c"}, " retrieval-error [b:retrieval-error c:retrieval-error]"},
		"all to come": {func(s basesByID) { s["b"], s["c"] = knowledge.New("b"), knowledge.New("c") }, []string{"b", "c"}, "b c indexing [b:indexing c:indexing]"},
	} {
		bases, tells := whole(), told{}
		c.change(bases)
		g := bases.group()
		g.Searched = tells.searched
		g.Start = func(f func(context.Context)) {
			defer func() { _ = recover() }() // like the tasks of a process
			f(context.Background())
		}
		for range 2 {
			tells = nil
			res, err := g.Retrieve(t.Context(), retrieval.Query{Text: "parental", Bases: refs(c.ids...), Settings: retrieval.DefaultSettings()})
			var searched []string
			for _, ref := range res.Bases {
				searched = append(searched, ref.Knowledge)
			}
			if got := fmt.Sprintf("%s %s %s", strings.Join(searched, " "), res.Reason, []string(tells)); got != c.want {
				t.Errorf("%s: %q, want %q (%v)", name, got, c.want, err)
			}
			if res.Partial != (res.Reason.Failed() && err == nil) || (err != nil) != (len(res.Sources) == 0) || err != nil && !errors.Is(err, retrieval.ErrUnavailable) {
				t.Errorf("%s: partial %v, %d sources, %v", name, res.Partial, len(res.Sources), err)
			}
		}
	}
	bases := whole()
	res, err := bases.group().Retrieve(t.Context(), retrieval.Query{Text: "hi", Bases: refs("a", "b"), Settings: retrieval.DefaultSettings()})
	if err != nil || res.Reason != retrieval.ReasonNoQueryTerms || len(res.Bases) != 2 {
		t.Errorf("no terms: %+v, %v", res, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	res, err = bases.group().Retrieve(ctx, retrieval.Query{Text: "parental", Bases: refs("a", "b"), Settings: retrieval.DefaultSettings()})
	if !errors.Is(err, retrieval.ErrUnavailable) || res.Reason != retrieval.ReasonTimeout {
		t.Errorf("too late: %q, %v", res.Reason, err)
	}
}

// broken returns a base whose searches all panic, because its memory was overwritten.
func broken(t *testing.T, id string) *knowledge.Base {
	t.Helper()
	c, err := knowledge.Scribbled(t.Context(), deps(), chunk.Document{ID: "z.md", Text: "Parental advice."})
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New(id)
	b.Swap(c)
	return b
}

// While a floor is being measured, answers wait for it at most for the allowed time. They use the
// current documents with an estimated floor, and are marked as provisional.
func TestGroupIsProvisional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		texts := knowledgetest.Handbook()
		bases := basesByID{"a": holding(t, "a", texts), "b": holding(t, "b", map[string]string{"x.md": "Parental guidance."})}
		g := bases.group()
		var measures []func(context.Context)
		g.Wait, g.Start = 100*time.Millisecond, func(f func(context.Context)) { measures = append(measures, f) }
		q := retrieval.Query{Text: "parental leave", Bases: refs("a", "b"), Settings: retrieval.DefaultSettings()}
		ask := func(wait time.Duration, provisional bool) retrieval.Result {
			t.Helper()
			start := time.Now()
			res, err := g.Retrieve(t.Context(), q)
			if err != nil || res.Provisional != provisional || time.Since(start) != wait {
				t.Errorf("provisional %v after %v, %v", res.Provisional, time.Since(start), err)
			}
			if diff := cmp.Diff([]retrieval.Ref{bases["a"].Ref(), bases["b"].Ref()}, res.Bases); diff != "" {
				t.Errorf("searched (-want +got):\n%s", diff)
			}
			return res
		}
		first := ask(100*time.Millisecond, true)
		if again := ask(100*time.Millisecond, true); first.Floor <= 0 || again.Floor != first.Floor {
			t.Errorf("estimated %v, then %v", first.Floor, again.Floor)
		}
		if len(measures) != 1 {
			t.Fatalf("measured %d times", len(measures))
		}
		measures[0](t.Context())
		right := ask(0, false)

		// A document is deleted: no answer contains it any more, and the previous floor is used.
		gone := right.Sources[0]
		delete(texts, gone.Doc)
		bases["a"].Swap(build(t, texts))
		g.Changed("a")
		changed := ask(100*time.Millisecond, true)
		if slices.ContainsFunc(changed.Sources, func(s retrieval.Source) bool { return s.Doc == gone.Doc }) {
			t.Errorf("still answers from %s", gone.Doc)
		}
		if len(measures) != 2 {
			t.Fatalf("measured %d times", len(measures))
		}
		measures[1](t.Context())
		ask(0, false)

		// A union without searches since the last change is not rebuilt, and its measurement ends.
		g.Changed("a")
		bases["a"].Swap(build(t, knowledgetest.Handbook()))
		g.Changed("a")
		bases["a"].Swap(build(t, texts))
		g.Changed("a")
		if len(measures) != 3 || g.KeptUnions() != 0 {
			t.Errorf("measured %d times, %d are kept", len(measures), g.KeptUnions())
		}
		measures[2](t.Context())
		// A measurement longer than the allowed wait is not waited for.
		g.Wait = time.Microsecond
		ask(0, true)
		measures[3](t.Context())
		ask(0, false)
		bases["b"].Swap(build(t, map[string]string{"x.md": "Parental guidance."}))
		g.Changed("b")
		// A process that is shutting down measures nothing.
		g.Wait = 100 * time.Millisecond
		ended, end := context.WithCancel(t.Context())
		end()
		g.Prepare("b", "a")
		measures[4](ended)
		ask(0, true)
	})
}

// Only the most recently used unions are kept.
func TestGroupKeepsFew(t *testing.T) {
	bases := basesByID{}
	for i := range 8 {
		id := fmt.Sprintf("b%d", i)
		bases[id] = holding(t, id, map[string]string{"x.md": "Parental guidance."})
	}
	g := bases.group()
	measured := 0
	start := g.Start
	g.Start = func(f func(context.Context)) { measured++; start(f) }
	pairs := 0
	for a := range 8 {
		for b := range a {
			g.Prepare("b0", "b1")
			g.Prepare(fmt.Sprintf("b%d", a), fmt.Sprintf("b%d", b))
			pairs++
		}
	}
	if measured != pairs || g.KeptUnions() != knowledge.MostUnions {
		t.Errorf("measured %d of %d, kept %d", measured, pairs, g.KeptUnions())
	}
}
