// Package screen shows people what was found, what a request became, and why.
package screen

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/answer"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
)

// Explanation shows what happened to one request, and why.
func Explanation(w io.Writer, e *explain.Explanation) {
	fmt.Fprintf(w, "%s  %s  %s\n", e.ID, e.Time.Local().Format(time.DateTime), strings.Join(about(e), ", "))
	fmt.Fprintln(w, strings.Join(ending(e), ", "))
	if e.Detail != "" {
		fmt.Fprintln(w, terminal.Clean(e.Detail))
	}
	t := e.Timings
	plan := ""
	if t.Plan > 0 {
		plan = fmt.Sprintf("plan %g, ", t.Plan)
	}
	fmt.Fprintf(w, "%g ms, first byte after %g ms; %g ms of Sidenote's: %ssearch %g, fit %g, edit %g\n", t.Total, t.FirstByte, t.Overhead, plan, t.Retrieve, t.Fit, t.Edit)
	if e.Stages == nil { // their usage is shown with them
		printUsage(w, e.Usage)
	}
	if m := e.CacheMiss; m != nil {
		fmt.Fprintf(w, "prompt cache, as the upstream says: %s, about %s tokens missed\n", m.Reason, thousands(m.Tokens))
	}
	printCitations(w, e.Citations)
	printLedger(w, e)
	printTools(w, e)
	printStages(w, e)
	for _, b := range []struct {
		name string
		*explain.Body
	}{{"received", e.Received}, {"sent", e.Sent}} {
		if b.Body != nil && !(b.Body == e.Sent && sentByStage(e)) {
			fmt.Fprintf(w, "\n%s %s bytes\n%s\n", b.name, terminal.Thousands(b.Bytes), strings.TrimRight(strings.Map(visible, b.Text), "\n"))
		}
	}
	if e.Stages == nil || e.Stages.Answer == "" { // otherwise it is shown with its stage
		printAnswer(w, e.Answer)
	}
}

// printUsage prints the tokens that the answer reported, and what the added ones cost.
func printUsage(w io.Writer, u *explain.Usage) {
	switch {
	case u == nil:
		return
	case u.Detail != "":
		fmt.Fprintf(w, "usage ignored, %s: %s\n", u.Found, terminal.Clean(u.Detail))
		return
	case u.Input == 0:
		return
	}
	share := float64(u.CachedInput) / float64(u.Input)
	fmt.Fprintf(w, "%s tokens in, %s cached, %s written to the cache; %s out\n", thousands(u.Input), percent(share), thousands(u.CacheWrite), thousands(u.Output))
	if c := u.Context; c != nil {
		fmt.Fprintf(w, "of these %s added: %s cached, %s written%s (estimated)\n", thousands(c.Input), thousands(c.CachedInput), thousands(c.CacheWrite), cost(c.USD))
	}
}

func cost(usd *float64) string {
	if usd == nil {
		return ""
	}
	return fmt.Sprintf(", $%.6f", *usd)
}

// printAnswer prints the answer of the model, as far as it is kept.
func printAnswer(w io.Writer, a *explain.Answer) {
	if a == nil {
		return
	}
	finish := ""
	if a.Finish != "" {
		finish = ", finish " + terminal.Clean(a.Finish)
	}
	if a.Unread != "" {
		fmt.Fprintf(w, "\nanswer not read: %s\n", a.Unread)
		return
	}
	fmt.Fprintf(w, "\nanswer %s bytes%s\n%s\n", terminal.Thousands(a.Bytes), finish, strings.TrimRight(strings.Map(visible, a.Text), "\n"))
}

// about describes the caller, policy and model of a request.
func about(e *explain.Explanation) []string {
	parts := []string{"tenant " + e.Tenant, "policy " + e.Policy, string(e.Route)}
	if e.Tenant == "" {
		parts = parts[2:]
	}
	if e.Mode != "" {
		parts = append(parts, "mode "+e.Mode)
	}
	if e.Switched != "" {
		parts = append(parts, "switched from "+e.Switched)
	}
	if e.Model != "" {
		parts = append(parts, "model "+e.Model)
	}
	if e.Stream {
		parts = append(parts, "streamed")
	}
	if e.Trace != "" {
		parts = append(parts, "trace "+e.Trace)
	}
	if e.Request != "" {
		parts = append(parts, "request id "+e.Request)
	}
	return parts
}

// ending describes the outcome of a request.
func ending(e *explain.Explanation) []string {
	parts := []string{string(e.Outcome), fmt.Sprintf("status %d", e.Status)}
	if e.Reason != "" {
		parts[0] += ": " + string(e.Reason)
	}
	if e.Rule != "" {
		parts[0] += " (rule " + e.Rule + ")"
	}
	for _, c := range e.Calls {
		if c.Purpose == report.ToRetryShorter {
			parts = append(parts, "sent again with fewer sources")
		}
		if c.Purpose == report.ToRetryEdits {
			parts = append(parts, "sent again without "+strings.Join(e.Refused, ", "))
		}
		if c.Purpose == report.ToTools {
			parts = append(parts, "sent again with what tools gave")
		}
		if c.Status != 0 && c.Purpose != report.ToStage { // stages are listed separately
			answered := fmt.Sprintf("upstream %s answered %d", c.Upstream, c.Status)
			if c.RequestID != "" {
				answered += " (" + c.RequestID + ")"
			}
			parts = append(parts, answered)
		}
	}
	if len(e.LeftOut) > 0 {
		parts = append(parts, "left out "+strings.Join(e.LeftOut, ", ")+", which the upstream refuses")
	}
	if e.Client != report.ClientCompleted {
		parts = append(parts, string(e.Client))
	}
	if e.Partial {
		parts = append(parts, "not all knowledge was searched")
	}
	if e.Cache != "" {
		parts = append(parts, "cache "+string(e.Cache))
	}
	return parts
}

// printCitations prints the result of checking citations, if they were checked.
func printCitations(w io.Writer, c *answer.CitationReport) {
	switch {
	case c == nil:
	case c.Unread != "":
		fmt.Fprintf(w, "citations not checked: %s\n", c.Unread)
	default:
		fmt.Fprintf(w, "%s, %d annotated, %d of unknown ids\n", terminal.Plural(c.Times(), "citation"), c.Annotations, c.Unknown)
	}
}

// printLedger prints what was found, and what of it the model was shown.
func printLedger(w io.Writer, e *explain.Explanation) {
	if e.Ledger == nil {
		return
	}
	l := &e.Ledger.Ledger
	counts(w, l)
	if l.Filter != nil {
		fmt.Fprintf(w, "only documents of %s\n", terminal.Clean(l.Filter.String()))
	}
	for _, note := range l.Notes {
		fmt.Fprintln(w, terminal.Clean(note))
	}
	for _, part := range l.Components {
		fmt.Fprintln(w, strings.TrimSpace(fmt.Sprintf("%-4s      %s, %d tokens  %s", part.Inclusion, part.Name, part.Tokens, part.Detail)))
	}
	for _, s := range l.Sources {
		title := strings.Trim(s.Name+" > "+s.Section, " >")
		line := terminal.Clean(fmt.Sprintf("%s/%s#%d  %s", s.Knowledge, s.Doc, s.Chunk, title))
		scores := fmt.Sprintf("score %.1f, relevance %.2f", s.Score, s.Relevance)
		if s.Strength > 0 {
			scores += fmt.Sprintf(", strength %.1f", s.Strength)
		}
		if s.Reranked != nil {
			scores += fmt.Sprintf(", rerank %.3g", *s.Reranked)
		}
		if s.Grade != "" {
			scores += ", " + gradeOf(s.Grade, s.Graded)
		}
		if s.Cited > 0 {
			scores += ", cited " + terminal.Plural(s.Cited, "time")
		}
		if s.Support != nil {
			scores += fmt.Sprintf(", support %.2f", *s.Support)
		}
		fmt.Fprintln(w, strings.TrimSpace(fmt.Sprintf("%-4s %-4s %s, %s, %d tokens  %s", s.Inclusion, terminal.Mark(s.ID), line, scores, s.Tokens, terminal.Clean(s.Detail))))
	}
}

// visible replaces characters that could control a terminal.
func visible(r rune) rune {
	if r == '\n' || r == '\t' || unicode.IsPrint(r) {
		return r
	}
	return '·'
}
