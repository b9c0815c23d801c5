package screen

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
)

// Usage shows each tenant's usage today and this month, and its fullest window.
func Usage(w io.Writer, all []admin.Usage) {
	width := len("TENANT")
	for _, u := range all {
		width = max(width, len(u.ID))
	}
	row := func(cells ...any) {
		fmt.Fprintf(w, "%-*s  %10s  %14s  %14s  %14s  %s\n", append([]any{width}, cells...)...)
	}
	row("TENANT", "REQUESTS", "TOKENS", "INJECTED", "USD", "FULLEST")
	for _, u := range all {
		day := u.Day.Spent
		row(u.ID, thousands(day.Requests), thousands(day.Tokens), thousands(day.Injected), u.Month.Spent.USD, fullest(u.Windows))
	}
	fmt.Fprintln(w, "requests and tokens of today, US dollars of this month (UTC)")
	var prompts []explain.PromptUse
	for _, u := range all {
		prompts = append(prompts, u.Prompts...)
	}
	promptCaches(w, prompts)
}

// promptCaches shows how upstreams' caches treated prompts, and what was added to them cost.
func promptCaches(w io.Writer, all []explain.PromptUse) {
	if len(all) == 0 {
		return
	}
	width := len("TENANT POLICY MODEL")
	names := make([]string, len(all))
	for i, u := range all {
		names[i] = terminal.Clean(u.Tenant + " " + u.Policy + " " + u.Model)
		width = max(width, len(names[i]))
	}
	fmt.Fprintf(w, "\nprompt caches of upstreams, last hour of this process\n%-*s  %10s  %14s  %8s  %14s  %8s  %12s\n", width, "TENANT POLICY MODEL", "REQUESTS", "INPUT", "CACHED", "ADDED", "CACHED", "ADDED USD")
	for i, u := range all {
		usd := "no price"
		if u.Priced > 0 {
			usd = fmt.Sprintf("%.6f", u.ContextUSD)
		}
		fmt.Fprintf(w, "%-*s  %10s  %14s  %8s  %14s  %8s  %12s\n", width, names[i], terminal.Thousands(u.Requests), thousands(u.Input), percent(u.CachedShare),
			thousands(u.Context), percent(u.ContextCachedShare), usd)
	}
	fmt.Fprintln(w, "what was added, and of it cached, is estimated by its position in the prompt")
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func thousands(n int64) string { return terminal.Thousands(int(n)) }

// fullest returns the window with the largest share used.
func fullest(windows []admin.UsageWindow) string {
	if len(windows) == 0 {
		return "no limits"
	}
	text, most := "-", 0.0
	for _, window := range windows {
		if share := shareOf(window); share > most {
			most, text = share, fmt.Sprintf("%s %.0f %%", window.Window, 100*share)
		}
	}
	return text
}

func shareOf(w admin.UsageWindow) float64 {
	used, limit := float(w.Used), float(w.Limit)
	return used / limit
}

func float(n json.Number) float64 {
	f, err := n.Float64()
	if err != nil {
		return 0 // from another server
	}
	return f
}

// barWidth is the length of a window's bar, in columns.
const barWidth = 20

// TenantUsage shows a tenant's usage of each window, and by kind.
func TenantUsage(w io.Writer, u admin.Usage) {
	fmt.Fprintln(w, "tenant "+u.ID)
	for _, window := range u.Windows {
		full := min(max(int(shareOf(window)*barWidth+0.5), 0), barWidth)
		reset := ""
		if window.ResetMS > 0 && window.Used != "0" {
			reset = ", all free in " + wait(time.Duration(window.ResetMS)*time.Millisecond)
		}
		fmt.Fprintf(w, "  %-26s  %s%s  %s of %s, %s left%s\n", window.Window, strings.Repeat("█", full), strings.Repeat("░", barWidth-full),
			number(window, window.Used), number(window, window.Limit), number(window, window.Left), reset)
	}
	if len(u.Windows) == 0 {
		fmt.Fprintln(w, "  no limits")
	}
	fmt.Fprintf(w, "  requests now: %d\n", u.Parallel)
	period(w, "today", u.Day)
	period(w, "this month", u.Month)
	promptCaches(w, u.Prompts)
}

// number formats one of a window's numbers: 5,000,000 or $1.50.
func number(w admin.UsageWindow, n json.Number) string {
	if !strings.HasPrefix(w.Window, "usd_") {
		return thousands(int64(float(n)))
	}
	whole, cents, _ := strings.Cut(n.String(), ".")
	return "$" + whole + "." + cents + strings.Repeat("0", max(0, 2-len(cents)))
}

// wait formats a duration in at most its two largest units, rounded up.
func wait(d time.Duration) string {
	up := func(unit time.Duration) time.Duration { return (d + unit - 1) / unit }
	switch {
	case d <= time.Minute:
		return fmt.Sprintf("%ds", up(time.Second))
	case d <= time.Hour:
		return fmt.Sprintf("%dm", up(time.Minute))
	case d <= 24*time.Hour:
		return fmt.Sprintf("%dh %dm", up(time.Minute)/60, up(time.Minute)%60)
	}
	return fmt.Sprintf("%dd %dh", up(time.Hour)/24, up(time.Hour)%24)
}

func period(w io.Writer, name string, p admin.UsagePeriod) {
	fmt.Fprintf(w, "%s (UTC, until %s)\n", name, p.End.UTC().Format(time.DateOnly))
	fmt.Fprintf(w, "  %-10s  %10s  %14s  %14s  %14s\n", "", "REQUESTS", "TOKENS", "INJECTED", "USD")
	row := func(name string, a admin.UsageAmount) {
		fmt.Fprintf(w, "  %-10s  %10s  %14s  %14s  %14s\n", name, thousands(a.Requests), thousands(a.Tokens), thousands(a.Injected), a.USD)
	}
	for _, kind := range slices.Sorted(maps.Keys(p.Kinds)) {
		row(kind, p.Kinds[kind])
	}
	row("spent", p.Spent)
	row("held", p.Held)
}
