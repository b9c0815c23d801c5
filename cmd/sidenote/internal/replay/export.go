package replay

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/record"
	"sidenote/retrieval/eval"
	"sidenote/retrieval/followup"
)

// An Export says what became of records that were exported as questions.
type Export struct {
	Object     string `json:"object"` // "replay.export"
	File       string `json:"file"`
	Records    int    `json:"records"`
	Questions  int    `json:"questions"`       // written, each once
	Rows       int    `json:"rows"`            // one for each question and document
	FollowUps  int    `json:"follow_ups"`      // records left out: what they ask depends on earlier messages
	Uncited    int    `json:"without_cited"`   // records left out: their answer cites no document, or was not read
	Disliked   int    `json:"disliked"`        // records left out: the feedback is negative
	NoQuestion int    `json:"no_question"`     // records left out
	Bases      int    `json:"knowledge_bases"` // that the documents are in; if several, ids begin with the base
}

// An asked is a question with the documents that answers cited.
type asked struct {
	text  string
	times int
	cited map[document]int // answers that cite it
}

type document struct{ knowledge, doc string }

// Candidates merges the records that q chooses into questions with the documents that answers cited:
// the most frequent question first, and the most cited document of each. Questions are the same if
// only case, spaces and the punctuation at their ends differ.
func Candidates(ctx context.Context, from record.Store, q record.Query, progress func(done int)) ([]eval.Candidate, Export, error) {
	e := Export{Object: "replay.export"}
	questions := map[string]*asked{}
	for rec, err := range from.All(q) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, e, fmt.Errorf("read the records: %w", err)
		}
		e.Records++
		progress(e.Records)
		e.add(questions, rec)
	}
	if e.Records == 0 {
		return nil, e, ErrEmpty
	}
	e.Questions = len(questions)
	list := e.list(questions)
	e.Rows = len(list)
	return list, e, nil
}

// add merges a record.
func (e *Export) add(to map[string]*asked, rec *record.Record) {
	question, earlier := rec.SearchText()
	key := normalised(question)
	switch {
	case key == "":
		e.NoQuestion++
		return
	case len(earlier) > 0 && followup.Depends(question):
		e.FollowUps++
		return
	case !rec.Cites():
		e.Uncited++
		return
	case rec.Feedback != nil && *rec.Feedback < 0:
		e.Disliked++
		return
	}
	q := to[key]
	if q == nil {
		q = &asked{text: question, cited: map[document]int{}}
		to[key] = q
	}
	q.times++
	cited := map[document]bool{}
	for i := range rec.Sources {
		if s := &rec.Sources[i]; s.Cited > 0 {
			cited[document{s.Knowledge, s.Doc}] = true
		}
	}
	for d := range cited {
		q.cited[d]++
	}
}

// list returns the rows of questions.
func (e *Export) list(questions map[string]*asked) (list []eval.Candidate) {
	bases := map[string]bool{}
	for _, q := range questions {
		for d := range q.cited {
			bases[d.knowledge] = true
		}
	}
	e.Bases = len(bases)
	for _, q := range questions {
		for d, cited := range q.cited {
			id := d.doc
			if len(bases) > 1 {
				id = d.knowledge + "/" + d.doc
			}
			list = append(list, eval.Candidate{Question: q.text, Expected: id, Asked: q.times, Cited: cited})
		}
	}
	slices.SortFunc(list, func(a, b eval.Candidate) int {
		return cmp.Or(cmp.Compare(b.Asked, a.Asked), cmp.Compare(a.Question, b.Question), cmp.Compare(b.Cited, a.Cited), cmp.Compare(a.Expected, b.Expected))
	})
	return list
}

// normalised returns a question in the form in which equal questions are merged.
func normalised(question string) string {
	words := strings.Fields(strings.ToLower(norm.NFKC.String(question)))
	return strings.Trim(strings.Join(words, " "), " ?!.…。？！¿¡")
}

// Print writes for people what was exported.
func (e Export) Print(w io.Writer) {
	p := printer{w}
	p.row("exported", "%s of %s, in %s of %s", terminal.Plural(e.Questions, "question"), terminal.Plural(e.Records, "record"), terminal.Plural(e.Rows, "row"), terminal.Clean(e.File))
	for _, of := range []struct {
		n    int
		what string
	}{{e.Uncited, "the answer cites no document, or could not be read"}, {e.FollowUps, "what is asked depends on earlier messages"}, {e.Disliked, "the feedback is negative"}, {e.NoQuestion, "no question"}} {
		if of.n > 0 {
			p.row("left out", "%s: %s", terminal.Thousands(of.n), of.what)
		}
	}
	p.row("", "write yes into the column confirmed of each row that is right; eval --data %s asks these", terminal.Clean(e.File))
}
