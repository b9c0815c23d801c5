package logreport

import (
	"fmt"
	"io"
	"strings"
	"time"

	"sidenote/cmd/internal/terminal"
)

const (
	barWidth = 20 // columns
	shown    = 10 // rows of a list; JSON has all
)

// Print prints the report for people.
func (r *Report) Print(w io.Writer) {
	p := page{w}
	p.head(r)
	if r.Lines.Requests == 0 {
		return
	}
	p.outcomes(r)
	p.tokens(&r.All)
	p.misses(r)
	p.latency(&r.All)
	p.compared(r.Compared)
	p.tools(r)
	p.groups("tenant", r.Tenants)
	p.groups("policy", r.Policies)
	p.groups("model", r.Models)
	p.unanswered(r)
}

type page struct{ io.Writer }

func (p page) line(format string, args ...any) {
	fmt.Fprintln(p, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

func (p page) head(r *Report) {
	span := ""
	if r.First != nil {
		span = ", " + r.First.Format(time.DateTime) + " to " + r.Last.Format(time.DateTime) + " UTC"
	}
	p.line("%s%s", terminal.Plural(r.Lines.Requests, "request"), span)
	l := &r.Lines
	var rest []string
	for _, of := range []struct {
		n    int
		what string
	}{{l.Before, "of requests before " + since(r)}, {l.Other, "of other things"}, {l.Broken, "broken"}} {
		if of.n > 0 {
			rest = append(rest, fmt.Sprintf("%s %s", terminal.Thousands(of.n), of.what))
		}
	}
	if len(rest) > 0 {
		p.line("not counted, of %s: %s", terminal.Plural(l.Read, "line"), strings.Join(rest, ", "))
	}
}

func since(r *Report) string {
	if r.Since == nil {
		return ""
	}
	return r.Since.Format(time.DateTime)
}

func (p page) outcomes(r *Report) {
	p.line("")
	for _, o := range r.Outcomes {
		p.line("%-10s %s  %s  %s", column(o.Outcome, 10), bar(o.Share), right(o.Requests), percent(o.Share))
	}
	if len(r.Reasons) > 0 {
		p.line("")
		for _, of := range r.Reasons[:min(len(r.Reasons), shown)] {
			p.line("reason     %-20s  %s", column(of.Reason, 20), right(of.Requests))
		}
		p.more(len(r.Reasons))
	}
	p.line("")
	p.line("injected   %s  of %s, %s", bar(r.All.InjectedShare), terminal.Plural(r.All.Chats, "chat"), strings.TrimSpace(percent(r.All.InjectedShare)))
	if c := r.All.Cache; c.Lookups > 0 {
		p.line("cache hit  %s  of %s, %s", bar(c.Share), terminal.Plural(c.Lookups, "lookup"), strings.TrimSpace(percent(c.Share)))
	}
}

func (p page) tokens(g *Group) {
	t := &g.Tokens
	p.line("")
	p.line("tokens     %s added to prompts%s", thousands(t.Context), perInjected(g))
	if t.ToolResults > 0 {
		p.line("           %s in results of tools", thousands(t.ToolResults))
	}
	cached := strings.TrimSpace(percent(g.CachedShare)) + " of it cached"
	if t.CacheWrite > 0 {
		cached += ", " + thousands(t.CacheWrite) + " written to the cache"
	}
	p.line("           %s input, %s, %s output, reported by %s", thousands(t.Input), cached, thousands(t.Output), terminal.Plural(t.Reported, "answer"))
	if t.ContextInput > 0 {
		p.line("           of the input %s were added, %s of these cached (estimated)", thousands(t.ContextInput), strings.TrimSpace(percent(g.ContextCached)))
	}
	if t.Unreported > 0 {
		p.line("           %s reported no usage", terminal.Plural(t.Unreported, "answer"))
	}
	if c := g.Cost; c != nil {
		p.line("cost       $%.4f for %s, of it about $%.4f for what was added", c.USD, terminal.Plural(c.Priced, "request"), c.ContextUSD)
		if c.Unpriced > 0 {
			p.line("           %s without: no price, or no usage reported", terminal.Plural(c.Unpriced, "request"))
		}
	}
	if g.ChargedUSD > 0 {
		p.line("charged    $%.4f to budgets", g.ChargedUSD)
	}
}

func perInjected(g *Group) string {
	if g.Injected == 0 {
		return ""
	}
	return fmt.Sprintf(", %s for each chat that got any", thousands(g.Tokens.Context/int64(g.Injected)))
}

// misses shows why prompt caches missed.
func (p page) misses(r *Report) {
	if len(r.Misses) == 0 {
		return
	}
	p.line("")
	for _, of := range r.Misses[:min(len(r.Misses), shown)] {
		p.line("cache miss %-26s  %s", column(of.Reason, 26), right(of.Requests))
	}
	p.more(len(r.Misses))
}

func (p page) latency(g *Group) {
	p.line("")
	p.line("%-10s %10s  %10s", "ms", "p50", "p95")
	for _, row := range []struct {
		name string
		of   Quantile
	}{{"added", g.Overhead}, {"search", g.Retrieval}, {"first byte", g.FirstByte}, {"whole", g.Duration}} {
		p.line("%-10s %10s  %10s", row.name, ms(row.of.P50), ms(row.of.P95))
	}
}

func (p page) compared(c *Compared) {
	if c == nil {
		return
	}
	p.line("")
	p.line("%-26s %12s  %12s", "", "shadow", "inject")
	row := func(name string, of func(*Side) string) {
		p.line("%-26s %12s  %12s", name, of(&c.Shadow), of(&c.Inject))
	}
	row("chats", func(s *Side) string { return terminal.Thousands(s.Requests) })
	row("would get, got sources", func(s *Side) string { return strings.TrimSpace(percent(s.Share)) })
	row("tokens for each of these", func(s *Side) string { return thousands(int64(s.Tokens + .5)) })
	row("sources for each of these", func(s *Side) string { return fmt.Sprintf("%.1f", s.Sources) })
	row("cache hit", func(s *Side) string { return strings.TrimSpace(percent(s.Cache.Share)) })
	row("search ms, p50 p95", func(s *Side) string { return both(s.Retrieval) })
	row("added ms, p50 p95", func(s *Side) string { return both(s.Overhead) })
	row("first byte ms, p50 p95", func(s *Side) string { return both(s.FirstByte) })
}

func (p page) tools(r *Report) {
	if t := r.Tools; t != nil {
		p.line("")
		p.line("tools      %s: %s, %s, %s tokens of results", terminal.Plural(t.Requests, "chat"), terminal.Plural(int(t.Rounds), "round"), terminal.Plural(int(t.Calls), "call"), thousands(t.Tokens))
	}
	if len(r.Stages) == 0 {
		return
	}
	p.line("")
	p.line("%-20s %8s  %8s  %12s  %12s  %16s", "stage", "called", "failed", "input", "output", "ms, p50 p95")
	for _, s := range r.Stages[:min(len(r.Stages), shown)] {
		p.line("%-20s %8s  %8s  %12s  %12s  %16s", column(s.Name, 20), terminal.Thousands(s.Called), terminal.Thousands(s.Failed), thousands(s.Input), thousands(s.Output), both(s.Duration))
	}
	p.more(len(r.Stages))
}

func (p page) groups(kind string, list []Group) {
	if len(list) == 0 {
		return
	}
	p.line("")
	const row = "%-20s %10s  %9s  %8s  %13s  %13s  %12s  %10s  %12s  %9s"
	p.line(row, kind, "requests", "injected", "nothing", "added tokens", "input", "input cached", "added USD", "added ms p95", "cache hit")
	for i := range list[:min(len(list), shown)] {
		g := &list[i]
		name := g.Name
		if name == "" {
			name = "(none)"
		}
		cached, usd := "-", "-"
		if g.Tokens.Input > 0 {
			cached = strings.TrimSpace(percent(g.CachedShare))
		}
		if g.Cost != nil && g.Cost.Priced > 0 {
			usd = fmt.Sprintf("%.4f", g.Cost.ContextUSD)
		}
		p.line(row, column(name, 20), terminal.Thousands(g.Requests), strings.TrimSpace(percent(g.InjectedShare)),
			terminal.Thousands(g.NoMatch+g.Irrelevant), thousands(g.Tokens.Context), thousands(g.Tokens.Input), cached, usd, ms(g.Overhead.P95), strings.TrimSpace(percent(g.Cache.Share)))
	}
	p.more(len(list))
}

func (p page) unanswered(r *Report) {
	p.line("")
	if len(r.Unanswered) == 0 {
		p.line("no question that was searched found nothing")
		return
	}
	p.line("questions without an answer in the knowledge")
	for _, u := range r.Unanswered[:min(len(r.Unanswered), shown)] {
		knowledge := u.Knowledge
		if knowledge == "" {
			knowledge = "(unknown)"
		}
		p.line("  %-16s %-18s %s %s  %s no match, %s irrelevant of %s, last %s", column(u.Tenant, 16), column(knowledge, 18), bar(u.Share),
			percent(u.Share), terminal.Thousands(u.NoMatch), terminal.Thousands(u.Irrelevant), terminal.Thousands(u.Searched), terminal.Clean(u.LastID))
	}
	p.more(len(r.Unanswered))
	p.line("The log has no texts. sidenote explain ID shows a question while it is kept, if explain.bodies is full.")
}

// more says that a list was shortened.
func (p page) more(n int) {
	if n > shown {
		p.line("… %d more; --json has all", n-shown)
	}
}

// column truncates a text from a log to so many columns.
func column(text string, wide int) string { return terminal.Fit(text, wide) }

func bar(share float64) string {
	full := min(max(int(share*barWidth+.5), 0), barWidth)
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

func right(n int) string { return fmt.Sprintf("%10s", terminal.Thousands(n)) }

func percent(share float64) string { return fmt.Sprintf("%5.1f %%", 100*share) }

func thousands(n int64) string { return terminal.Thousands(int(n)) }

func ms(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	}
	return terminal.Thousands(int(v + .5))
}

func both(q Quantile) string { return ms(q.P50) + "  " + ms(q.P95) }
