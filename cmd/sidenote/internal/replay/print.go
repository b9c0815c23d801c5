package replay

import (
	"fmt"
	"io"
	"strings"
	"time"

	"sidenote/cmd/internal/terminal"
)

// maxWidth is the width of lines, in columns.
const maxWidth = 100

// causes say in words why records were not replayed or not compared.
var causes = map[string]string{
	CauseTenant: "tenant that no longer exists", CausePolicy: "policy that no longer exists", CauseBases: "not searched: the policy has none of the bases",
	CauseClaims: "what may be seen depends on the caller's token", CauseUnread: "cannot be read", CauseRefused: "the policy refuses it",
	CauseThen: "was not searched", CauseDegraded: "the search had failed", CauseFailing: "the search fails now", CauseHelpers: "was not asked; --helpers asks it",
	CauseRepeat: "sources of earlier turns were given again, which are not recorded", CauseTools: "the model called tools",
	CausePresent: "the messages held sources, and are not recorded", CauseRedacted: "the question is redacted",
	CauseTexts: "the added text depends on what is not recorded of the request",
}

// Print writes the report for people: sums first, then what changed most.
func (r *Report) Print(w io.Writer) {
	p := printer{w}
	p.head(r)
	if r.Compared > 0 {
		p.sums(r)
	}
	if r.Answers != nil {
		p.answers(r.Answers)
	}
	for i, o := range r.Changed {
		p.changed(i+1, o)
	}
	if r.More > 0 {
		fmt.Fprintf(w, "\n%s more changed; --full shows them all\n", terminal.Thousands(r.More))
	}
}

type printer struct{ io.Writer }

func (p printer) row(name, format string, args ...any) {
	fmt.Fprintln(p, strings.TrimRight(fmt.Sprintf("%-14s%s", name, fmt.Sprintf(format, args...)), " "))
}

func (p printer) head(r *Report) {
	under := "the policies of the records"
	if r.Policy != "" {
		under = "policy " + terminal.Clean(r.Policy)
	}
	if r.Model != "" {
		under += " and model " + terminal.Clean(r.Model)
	}
	p.row("replayed", "%s of %s under %s in %.1f s", terminal.Thousands(r.Replayed), terminal.Plural(r.Records, "recorded question"), under, r.TookMS/1e3)
	if r.First != nil {
		p.row("", "%s to %s UTC", r.First.UTC().Format(time.DateTime), r.Last.UTC().Format(time.DateTime))
	}
	p.counts("not replayed", r.Skipped)
	p.row("compared", "%s", terminal.Thousands(r.Compared))
	p.counts("not compared", r.Incomparable)
}

func (p printer) counts(name string, list []Count) {
	for _, c := range list {
		text := terminal.Thousands(c.Records) + ": " + CauseText(c.Cause)
		if len(c.Names) > 0 {
			text += ": " + terminal.Clean(strings.Join(c.Names, ", "))
		}
		p.row(name, "%s", text)
		name = ""
	}
}

// CauseText says in words why records were not replayed or not compared.
func CauseText(code string) string {
	if text, ok := causes[code]; ok {
		return text
	}
	return terminal.Clean(code)
}

func (p printer) sums(r *Report) {
	fmt.Fprintln(p)
	p.row("identical", "%s, byte for byte", p.of(r.Identical, r.Compared))
	if s := r.SameInput; s.Records > 0 {
		p.row("", "%s of those with the same policy, bases and model", p.of(s.Identical, s.Records))
	}
	if r.OtherText > 0 {
		p.row("other text", "%s, with the same sources", p.of(r.OtherText, r.Compared))
	}
	p.row("other sources", "%s: %s added, %s removed, %s moved", p.of(r.OtherSource, r.Compared), terminal.Thousands(r.Sources.Added), terminal.Thousands(r.Sources.Removed), terminal.Thousands(r.Sources.Moved))
	if n := r.Sources.NotSearched; n > 0 {
		p.row("", "%s in bases that the policy does not have", terminal.Thousands(n))
	}
	p.row("change", "%.3f on average", r.MeanChange)
	p.row("silence", "%s without sources, now %s: %s get some now, %s none any more", terminal.Thousands(r.Silence.Before), terminal.Thousands(r.Silence.Now), terminal.Thousands(r.Silence.Gained), terminal.Thousands(r.Silence.Lost))
	p.row("tokens", "%s added to prompts, now %s%s", terminal.Thousands(int(r.Tokens.Before)), terminal.Thousands(int(r.Tokens.Now)), by(float64(r.Tokens.Before), float64(r.Tokens.Now)))
	p.cost(&r.Cost)
	for _, b := range r.Bases {
		if b.Other > 0 {
			p.row("knowledge", "%s is another state than for %s", terminal.Clean(b.ID), p.of(b.Other, b.Same+b.Other))
		}
	}
	q := r.Retrieval
	p.row("search ms", "p50 %s, p95 %s, p99 %s; now %s, %s, %s", ms(q.Before.P50), ms(q.Before.P95), ms(q.Before.P99), ms(q.Now.P50), ms(q.Now.P95), ms(q.Now.P99))
	p.row("", "machines, load and caches differ: the replay uses all processors and no cache")
}

func (p printer) cost(c *Cost) {
	if c.Priced > 0 {
		p.row("context cost", "$%.4f, now $%.4f%s, as uncached input", c.BeforeUSD, c.NowUSD, by(c.BeforeUSD, c.NowUSD))
	}
	if len(c.Unpriced) > 0 {
		p.row(map[bool]string{true: "", false: "context cost"}[c.Priced > 0], "no price for %s", terminal.Clean(strings.Join(c.Unpriced, ", ")))
	}
}

// of formats a part of all, with its share.
func (p printer) of(n, all int) string {
	return fmt.Sprintf("%s of %s (%.1f %%)", terminal.Thousands(n), terminal.Thousands(all), 100*float64(n)/float64(max(all, 1)))
}

// by formats by how much a number changed.
func by(before, now float64) string {
	if before == 0 {
		return ""
	}
	return fmt.Sprintf(" (%+.1f %%)", 100*(now-before)/before)
}

func ms(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.2f", v)
	}
	return terminal.Thousands(int(v + .5))
}

func (p printer) answers(a *Answers) {
	fmt.Fprintln(p)
	p.row("asked", "%s answered, %s not asked for the budget; $%.4f of $%.4f spent", terminal.Thousands(a.Answered), terminal.Thousands(a.NotAsked), a.SpentUSD, a.BudgetUSD)
	p.counts("errors", a.Errors)
	p.row("", "%-14s%-14s%s", "recorded", "now", terminal.Plural(a.Compared, "answer"))
	row := func(name string, of func(*AnswerSide) string) {
		p.row(name, "%-14s%s", of(&a.Before), of(&a.Now))
	}
	row("cite", func(s *AnswerSide) string { return fmt.Sprintf("%.1f %%", 100*s.CitingShare) })
	row("citations", func(s *AnswerSide) string { return terminal.Thousands(s.Citations) })
	row("unknown", func(s *AnswerSide) string { return terminal.Thousands(s.Unknown) })
	row("input", func(s *AnswerSide) string { return terminal.Thousands(int(s.PromptTokens)) })
	row("output", func(s *AnswerSide) string { return terminal.Thousands(int(s.CompletionTokens)) })
	row("cost", func(s *AnswerSide) string { return fmt.Sprintf("$%.4f", s.CostUSD) })
}

func (p printer) changed(n int, o *Outcome) {
	head := fmt.Sprintf("%d  %.3f", n, o.Change)
	fmt.Fprintf(p, "\n%s  %s\n", head, terminal.Fit(o.Question, maxWidth-len(head)-2))
	fmt.Fprintf(p, "  %s, %s, %s: %s tokens, now %s\n", terminal.Clean(o.ID), terminal.Clean(o.Tenant), o.Time.UTC().Format(time.DateTime), terminal.Thousands(o.Before.Tokens), terminal.Thousands(o.Now.Tokens))
	for i := range o.Sources {
		if s := &o.Sources[i]; s.Change != "" {
			fmt.Fprintf(p, "  %s\n", terminal.Fit(s.String(), maxWidth-2))
		}
	}
	if o.Change == 0 {
		fmt.Fprintln(p, "  the same sources in another text")
	}
}

// String says what changed for a source.
func (s *Source) String() string {
	name := fmt.Sprintf("%s/%s#%d", s.Knowledge, s.Doc, s.Chunk)
	switch s.Change {
	case added:
		return fmt.Sprintf("+ %s, now [%d]", name, s.Now)
	case removed:
		return fmt.Sprintf("- %s, was [%d]", name, s.Before)
	case notSearched:
		return fmt.Sprintf("- %s, was [%d], of a base that the policy does not have", name, s.Before)
	case moved:
		return fmt.Sprintf("~ %s, was [%d], now [%d]", name, s.Before, s.Now)
	}
	return fmt.Sprintf("  %s, [%d]", name, s.Now)
}
