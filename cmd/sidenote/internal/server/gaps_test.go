package server

import (
	"context"
	"fmt"
	"iter"
	"os"
	"testing"
	"time"

	"sidenote/proxy/gaps"
	"sidenote/proxy/record"
	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/eval"
	"sidenote/retrieval/knowledge/chunk"
)

// records is a record.Store.
type records []*record.Record

func (s records) All(record.Query) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		for _, r := range s {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// A found is a gaps.Finder over one base.
type found struct{ retrieval.Retriever }

func (f found) search(ctx context.Context, text string) (retrieval.Result, error) {
	q := retrieval.Query{Text: text, Settings: retrieval.DefaultSettings(), Bases: []retrieval.Ref{{Knowledge: "kb"}}}
	q.Settings.Deadline = time.Minute
	return f.Retrieve(ctx, q)
}

func (f found) Find(ctx context.Context, r *record.Record) (gaps.Finding, error) {
	res, err := f.search(ctx, r.Question)
	return gaps.Finding{Nearest: nearest(&res), Sources: len(res.Sources)}, err
}

// ask returns the record of a question whose answer cites the document that holds the answer, if it is
// among the sources.
func (f found) ask(t *testing.T, id, text, document string) *record.Record {
	t.Helper()
	res, err := f.search(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	r := &record.Record{ID: id, Question: text, Checked: true, Time: time.Unix(1_800_000_000, 0), Reason: "no-match"}
	for n, s := range res.Sources {
		source := record.Source{ID: n + 1, Doc: s.Doc}
		if r.Reason = ""; s.Doc == document {
			source.Cited = 1
		}
		r.Sources = append(r.Sources, source)
	}
	return r
}

// With 20 of 200 documents removed and 400 questions asked, at least 15 of the 20 subjects are among
// the first 25 groups, and at least 80 % of the questions of these groups belong together.
func TestGapsAreTheDocumentsThatAreMissing(t *testing.T) {
	const dir = "../../../../../shared/ir/drcd"
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no test collection: %v", err)
	}
	c, err := eval.Read(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	questions := map[string][]eval.Query{} // by document
	for _, q := range c.Queries {
		for id := range c.Grades[q.ID] {
			questions[id] = append(questions[id], q)
		}
	}
	for trial := range 5 {
		t.Run(fmt.Sprint(trial), func(t *testing.T) {
			missing(t, c.Documents, questions, trial)
		})
	}
}

func missing(t *testing.T, all []eval.Document, questions map[string][]eval.Query, trial int) {
	titles, removed, subject := map[string]bool{}, map[string]bool{}, map[string]string{}
	var kept []chunk.Document
	var chosen []eval.Document
	for i := trial * 397; len(chosen) < 200; i++ {
		d := all[i%len(all)]
		if len(questions[d.ID]) < 2 || titles[d.Title] {
			continue
		}
		titles[d.Title] = true
		if chosen = append(chosen, d); len(chosen)%10 == trial {
			removed[d.ID] = true
			continue
		}
		kept = append(kept, chunk.Document{ID: d.ID, Name: d.Title, Text: d.Text})
	}
	base := baseOf(t, "kb", kept)
	f := found{&retrieval.Pipeline{Bases: func(string) retrieval.Retriever { return base }, Terms: new(analysis.Recent).Terms}}
	var asked records
	for _, d := range chosen {
		for _, q := range questions[d.ID][:2] {
			asked = append(asked, f.ask(t, q.ID, q.Text, d.ID))
			subject[q.ID] = d.ID
		}
	}
	report, err := gaps.Find(t.Context(), asked, record.Query{}, f)
	if err != nil {
		t.Fatal(err)
	}
	first, together, count := map[string]bool{}, 0, 0
	for _, g := range report.Groups[:min(len(report.Groups), 25)] {
		in, most := map[string]int{}, ""
		for _, q := range g.Questions {
			if in[subject[q.ID]]++; in[subject[q.ID]] > in[most] {
				most = subject[q.ID]
			}
		}
		together, count = together+in[most], count+g.Count
		if removed[most] {
			first[most] = true
		}
	}
	share := float64(together) / float64(count)
	t.Logf("%d gaps in %d groups; %d of %d subjects in the first 25, %.2f of their questions together", report.Gaps, len(report.Groups), len(first), len(removed), share)
	if len(first) < 15 || share < 0.8 {
		t.Errorf("%d subjects, %.2f together", len(first), share)
	}
}
