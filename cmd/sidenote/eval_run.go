package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/retrieval"
	"sidenote/retrieval/eval"
)

// An evaluation holds a collection and the outcomes of its queries, and of off-topic messages if
// there are any.
type evaluation struct {
	Name      string
	Subject   *evalSubject // what is searched
	Data      *eval.Collection
	Unmatched []eval.Row // rows of a CSV whose documents do not exist
	Left      int        // rows of a CSV that no person has confirmed
	Outcomes  []eval.Outcome
	Messages  []eval.Message
	OffTopic  []eval.OffTopic // of the Messages that were asked
}

// Run asks the queries of Data, then Messages. If ctx ends it keeps the results so far.
func (e *evaluation) Run(ctx context.Context, show *terminal.Progress) (err error) {
	queries, messages := len(e.Data.Queries), len(e.Messages)
	if e.Outcomes, err = e.Subject.Trial(show, queries, "queries").Run(ctx, e.Data); err != nil {
		return err
	}
	e.OffTopic, err = e.Subject.Trial(show, messages, "off-topic messages").OffTopic(ctx, e.Messages)
	return err
}

// Incomplete returns an error that says what the numbers leave out, or nil.
func (e *evaluation) Incomplete() error {
	var parts []string
	if asked, all := len(e.Outcomes), len(e.Data.Queries); asked < all {
		parts = append(parts, fmt.Sprintf("stopped after %d of %d queries", asked, all))
	}
	if asked, all := len(e.OffTopic), len(e.Messages); asked < all {
		parts = append(parts, fmt.Sprintf("stopped after %d of %d off-topic messages", asked, all))
	}
	if n := e.Data.UnknownQueries; n > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s not in queries.jsonl, so not asked", terminal.Plural(n, "query id"), e.Data.Judgments))
	}
	if n := e.Data.UnknownDocuments; n > 0 {
		where := "corpus.jsonl"
		if len(e.Subject.Bases) > 0 {
			where = "knowledge " + e.Subject.String()
		}
		parts = append(parts, fmt.Sprintf("%s of %s not in %s, so never found", terminal.Plural(n, "document id"), e.Data.Judgments, where))
	}
	parts = append(parts, e.unmatched()...)
	parts = append(parts, e.without()...)
	if len(parts) == 0 {
		return nil
	}
	return errors.New("partly done: " + strings.Join(parts, "; "))
}

// without says which stages failed for which queries.
func (e *evaluation) without() (lines []string) {
	if s := e.Subject; s.Embeds && s.Vectors < s.Chunks {
		lines = append(lines, fmt.Sprintf("%s of %s have a vector, the others were found by words alone", terminal.Thousands(s.Vectors), terminal.Plural(s.Chunks, "chunk")))
	}
	unvectored, unplanned, unranked, ungraded := 0, map[retrieval.PlanReason]int{}, map[retrieval.RerankReason]int{}, map[retrieval.RerankReason]int{}
	for _, o := range e.Outcomes {
		if o.Degraded == retrieval.StageEmbed {
			unvectored++
		}
		if p := o.Planned; p != nil && p.Fallback != retrieval.PlanOK {
			unplanned[p.Fallback]++
		}
		if o.Unranked != "" {
			unranked[o.Unranked]++
		}
		if o.Ungraded != "" {
			ungraded[o.Ungraded]++
		}
	}
	if unvectored > 0 {
		lines = append(lines, fmt.Sprintf("%s searched by words alone for want of a vector", were(unvectored)))
	}
	for _, reason := range slices.Sorted(maps.Keys(unplanned)) {
		lines = append(lines, fmt.Sprintf("%s searched without a plan (%s)", were(unplanned[reason]), reason))
	}
	for _, reason := range slices.Sorted(maps.Keys(unranked)) {
		lines = append(lines, fmt.Sprintf("%s ranked without the reranker (%s)", were(unranked[reason]), reason))
	}
	for _, reason := range slices.Sorted(maps.Keys(ungraded)) {
		lines = append(lines, fmt.Sprintf("%s answered without grades (%s)", were(ungraded[reason]), reason))
	}
	return lines
}

// were returns "1 query was" or "2 queries were".
func were(queries int) string {
	if queries == 1 {
		return "1 query was"
	}
	return terminal.Thousands(queries) + " queries were"
}

// WriteRun writes the rankings as a TREC run.
func (e *evaluation) WriteRun(w io.Writer) error { return eval.WriteRun(w, e.Outcomes, "sidenote") }

// mostUnmatched limits the unmatched rows that Incomplete names.
const mostUnmatched = 5

// unmatched lists the rows of a CSV that name documents which do not exist.
func (e *evaluation) unmatched() (lines []string) {
	if len(e.Unmatched) == 0 {
		return nil
	}
	var ids []string
	for _, d := range e.Data.Documents {
		ids = append(ids, d.ID)
		if _, plain, cut := strings.Cut(d.ID, "/"); cut && e.Subject.Several() {
			ids = append(ids, plain)
		}
	}
	for _, row := range e.Unmatched[:min(mostUnmatched, len(e.Unmatched))] {
		lines = append(lines, fmt.Sprintf("%s:%d: no document is %q%s", e.Data.Judgments, row.Line, terminal.Clean(row.Expected), strictyaml.DidYouMean(row.Expected, ids)))
	}
	if rest := len(e.Unmatched) - len(lines); rest > 0 {
		lines = append(lines, fmt.Sprintf("and %d rows more", rest))
	}
	return lines
}

// injected returns the share of the off-topic messages that get sources; 0 without messages.
func (e *evaluation) injected() float64 {
	if len(e.OffTopic) == 0 {
		return 0
	}
	return float64(len(eval.Injected(e.OffTopic))) / float64(len(e.OffTopic))
}
