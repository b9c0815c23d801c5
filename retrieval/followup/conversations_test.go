package followup_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/eval"
	"sidenote/retrieval/followup"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
)

const (
	conversations = "testdata/conversations"
	languages     = "testdata/languages" // short ones in fourteen languages more
	among         = 6                    // number of sources of a request
)

// A library answers the questions of one split of the conversations.
type library struct {
	*eval.Collection
	base *knowledge.Base
}

func open(t testing.TB, folder, split string) library {
	t.Helper()
	c, err := eval.Read(t.Context(), folder, split)
	if err != nil {
		t.Fatal(err)
	}
	if c.UnknownQueries+c.UnknownDocuments > 0 {
		t.Fatalf("%d queries and %d documents are unknown", c.UnknownQueries, c.UnknownDocuments)
	}
	documents := make([]chunk.Document, len(c.Documents))
	for i, d := range c.Documents {
		documents[i] = chunk.Document{ID: d.ID, Name: d.Title, Text: d.Text}
	}
	content, _, err := knowledge.FromDocuments(t.Context(), documents, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	s := library{c, knowledge.New("docs")}
	s.base.Swap(content)
	return s
}

// found returns the documents found for a question after turns, best first.
func (s library) found(t testing.TB, text string, turns []string, floor bool) []string {
	t.Helper()
	q := retrieval.Query{Text: text, Bases: []retrieval.Ref{{Knowledge: "docs"}}, Previous: retrieval.Turns(turns), Settings: retrieval.DefaultSettings()}
	if !floor {
		q.Settings.ScoreThreshold = 0
	}
	p := &retrieval.Prepare{
		Next:     &retrieval.Pipeline{Bases: func(string) retrieval.Retriever { return s.base }, Terms: analysis.Terms},
		Ref:      func(string) (retrieval.Ref, bool) { return s.base.Ref(), true },
		HasTerms: new(analysis.Recent).HasTerms, Join: followup.Join,
	}
	res, err := p.Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, source := range res.Sources {
		if !slices.Contains(ids, source.Doc) {
			ids = append(ids, source.Doc)
		}
	}
	return ids
}

// place returns the rank of the first relevant document, from 1; among+1 if there is none.
func place(ids []string, grades eval.Grades) int {
	for i, id := range ids {
		if grades[id] > 0 {
			return i + 1
		}
	}
	return among + 1
}

// A tally counts the conversations in which a relevant document is first, or among the first six.
type tally struct{ first, among int }

func (c *tally) count(place int) {
	if place == 1 {
		c.first++
	}
	if place <= among {
		c.among++
	}
}

// Questions of the second and third turn find their document by means of the earlier turns, which
// they do not alone, and pass the floor.
func TestFollowUps(t *testing.T) {
	s := open(t, conversations, "follow")
	counts := map[string]int{}
	var alone, now, asked tally
	for _, q := range s.Queries {
		counts[q.ID[len("follow-"):len("follow-en")]]++
		grades := s.Grades[q.ID]
		alone.count(place(s.found(t, q.Text, nil, false), grades))
		now.count(place(s.found(t, q.Text, q.Turns, false), grades))
		ids := s.found(t, q.Text, q.Turns, true)
		if asked.count(place(ids, grades)); place(ids, grades) > among {
			t.Logf("missed: %s %q after %q", q.ID, q.Text, q.Turns)
		}
	}
	t.Logf("of %d: alone %+v, with turns %+v, and above the floor %+v", len(s.Queries), alone, now, asked)
	for language, least := range map[string]int{"en": 40, "de": 10, "zh": 8, "fr": 5, "es": 5} {
		if counts[language] < least {
			t.Errorf("%d conversations in %s", counts[language], language)
		}
	}
	n := float64(len(s.Queries))
	if float64(now.among) < .95*n || float64(now.first) < .8*n || float64(asked.among) < .85*n || float64(alone.among) > .75*n {
		t.Error("too few found, or too many without what was said before")
	}
}

// After a change of topic the new topic is found, and the old one rarely ranks above it more often
// than without earlier turns.
func TestTopicChanges(t *testing.T) {
	s := open(t, conversations, "change")
	var alone, now tally
	for _, q := range s.Queries {
		grades := s.Grades[q.ID]
		alone.count(place(s.found(t, q.Text, nil, false), grades))
		n := place(s.found(t, q.Text, q.Turns, false), grades)
		if now.count(n); n > 1 {
			t.Logf("at %d: %s %q after %q", n, q.ID, q.Text, q.Turns)
		}
	}
	t.Logf("of %d: alone %+v, with turns %+v", len(s.Queries), alone, now)
	if len(s.Queries) < 20 || now.among < alone.among || now.first < alone.first-2 {
		t.Error("the old topic crowds out the new one")
	}
}

// Short questions in many languages find their document by the earlier turns, also if only the
// first of them names it, and after a change of topic the new one is first.
func TestFollowUpsInManyLanguages(t *testing.T) {
	s := open(t, languages, "follow")
	var alone, now, asked tally
	for _, q := range s.Queries {
		alone.count(place(s.found(t, q.Text, nil, true), s.Grades[q.ID]))
		now.count(place(s.found(t, q.Text, q.Turns, false), s.Grades[q.ID]))
		n := place(s.found(t, q.Text, q.Turns, true), s.Grades[q.ID])
		if asked.count(n); n > 1 {
			t.Logf("at %d: %s %q after %q", n, q.ID, q.Text, q.Turns)
		}
	}
	t.Logf("of %d: alone %+v, with turns %+v, and above the floor %+v", len(s.Queries), alone, now, asked)
	if n := len(s.Queries); n < 56 || now.first < n*9/10 || asked.first < n*8/10 || alone.first > n/2 {
		t.Error("too few found, or too many without what was said before")
	}
	s = open(t, languages, "change")
	alone, now = tally{}, tally{}
	for _, q := range s.Queries {
		alone.count(place(s.found(t, q.Text, nil, true), s.Grades[q.ID]))
		n := place(s.found(t, q.Text, q.Turns, true), s.Grades[q.ID])
		if now.count(n); n > 1 {
			t.Logf("at %d: %s %q after %q", n, q.ID, q.Text, q.Turns)
		}
	}
	t.Logf("of %d changes of topic: alone %+v, with turns %+v", len(s.Queries), alone, now)
	if n := len(s.Queries); n < 42 || now.first < alone.first-2 {
		t.Error("the old topic crowds out the new one")
	}
}

// A question that stands alone gets the same sources whatever was said before.
func TestStandAlone(t *testing.T) {
	s := open(t, conversations, "follow")
	changes := open(t, conversations, "change")
	var questions, said []string
	for _, q := range slices.Concat(s.Queries, changes.Queries) {
		said = append(said, q.Text)
		for _, text := range append(q.Turns, q.Text) {
			if !followup.Depends(text) && !slices.Contains(questions, text) {
				questions = append(questions, text)
			}
		}
	}
	if len(questions) < 40 {
		t.Fatalf("only %d questions stand alone", len(questions))
	}
	rapid.Check(t, func(r *rapid.T) {
		question := rapid.SampledFrom(questions).Draw(r, "question")
		turns := rapid.SliceOfN(rapid.SampledFrom(said), 1, 4).Draw(r, "turns")
		if got, want := s.found(t, question, turns, true), s.found(t, question, nil, true); !slices.Equal(got, want) {
			r.Fatalf("got %v, alone %v", got, want)
		}
	})
}
