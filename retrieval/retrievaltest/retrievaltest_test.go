package retrievaltest_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sidenote/retrieval"
	"sidenote/retrieval/retrievaltest"
)

// A list is the plainest Base there can be: documents scored by how many
// different words of the question they hold, common ones aside.
type list []document

type document struct {
	retrieval.Source
	attributes map[string]any
}

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if len(w) > 3 {
			set[w] = true
		}
	}
	return set
}

func (s list) Ref() retrieval.Ref { return retrieval.Ref{Knowledge: "list", Generation: "01"} }

func (s list) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	if err := ctx.Err(); err != nil {
		return retrieval.Result{Reason: retrieval.ReasonTimeout}, fmt.Errorf("list: %w: %w", retrieval.ErrUnavailable, err)
	}
	asked := words(q.Text)
	if len(asked) == 0 {
		return retrieval.Result{Reason: retrieval.ReasonNoQueryTerms}, nil
	}
	res := retrieval.Result{Bases: []retrieval.Ref{s.Ref()}}
	for _, d := range s {
		src, held := d.Source, words(d.Text)
		if !q.Filter.Match(d.attributes) {
			continue
		}
		for w := range asked {
			if held[w] {
				src.Score++
			}
		}
		if src.Score > 0 {
			res.Sources = append(res.Sources, src)
		}
	}
	slices.SortStableFunc(res.Sources, func(a, b retrieval.Source) int { return cmp.Compare(b.Score, a.Score) })
	res.Sources = res.Sources[:min(len(res.Sources), q.Settings.NumCandidates)]
	return res, nil
}

// The suite asks no more than the plainest base can do.
func TestRun(t *testing.T) {
	retrievaltest.Run(t, func(_ *testing.T, docs []retrievaltest.Document) retrieval.Base {
		var s list
		for _, d := range docs {
			s = append(s, document{retrieval.Source{Type: "rag", Knowledge: "list", Doc: d.ID, Name: d.ID, Text: strings.TrimSpace(d.Text)}, d.Attributes})
		}
		return s
	})
}
