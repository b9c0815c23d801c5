package replay

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/inspector"
)

//go:embed page.html
var pageHTML string

// WritePage writes the report as a page that needs nothing else: no scripts, no other files.
func WritePage(w io.Writer, r *Report) error {
	page, err := template.New("page").Funcs(template.FuncMap{
		"style":   func() template.CSS { return template.CSS(inspector.StyleSheet()) }, //nolint:gosec // our own file
		"visible": inspector.Visible, "count": thousands, "cause": CauseText, "sides": sides, "ms": ms, "join": joined, "short": short,
		"time":    func(t time.Time) string { return t.UTC().Format(time.DateTime) },
		"change":  func(v float64) string { return fmt.Sprintf("%.3f", v) },
		"percent": func(n, all int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(all, 1))) },
		"usd":     func(v float64) string { return fmt.Sprintf("%.4f", v) },
		"words":   func(change string) string { return strings.ReplaceAll(change, "_", " ") },
	}).Parse(pageHTML)
	if err != nil {
		panic("BUG: the page of a replay: " + err.Error())
	}
	if err := page.Execute(w, r); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// short returns the beginning of a question, made visible.
func short(question string) string {
	const most = 300 // columns
	return inspector.Visible(cmp.Or(terminal.Fit(question, most), "(no question)"))
}

func joined(list []string) string { return strings.Join(list, ", ") }

func thousands(n any) string {
	switch n := n.(type) {
	case int64:
		return terminal.Thousands(int(n))
	case int:
		return terminal.Thousands(n)
	}
	return fmt.Sprint(n)
}

// A band is a row of two texts side by side. In an unchanged one both have the lines of Before.
type band struct {
	Same, Fold  bool
	Before, Now []string
}

const (
	beside   = 2   // unchanged lines next to changes
	minFold  = 4   // fewer lines are not folded
	maxLines = 400 // of a text
	maxLine  = 4000
)

// sides aligns two texts.
func sides(before, now string) (bands []band) {
	runs := inspector.DiffLines(lines(before), lines(now))
	for i := 0; i < len(runs); i++ {
		if runs[i].Kind == inspector.Same {
			bands = append(bands, unchanged(runs[i].Lines, i == 0, i == len(runs)-1)...)
			continue
		}
		var b band
		for ; i < len(runs) && runs[i].Kind != inspector.Same; i++ {
			if runs[i].Kind == inspector.Deleted {
				b.Before = append(b.Before, runs[i].Lines...)
			} else {
				b.Now = append(b.Now, runs[i].Lines...)
			}
		}
		i--
		bands = append(bands, b)
	}
	return bands
}

// unchanged folds the lines that are not next to changes.
func unchanged(lines []string, first, last bool) (bands []band) {
	from, to := min(beside, len(lines)), max(len(lines)-beside, 0)
	if first {
		from = 0
	}
	if last {
		to = len(lines)
	}
	if to-from < minFold {
		return []band{{Same: true, Before: lines}}
	}
	for _, b := range []band{{Before: lines[:from]}, {Before: lines[from:to], Fold: true}, {Before: lines[to:]}} {
		if b.Same = true; len(b.Before) > 0 {
			bands = append(bands, b)
		}
	}
	return bands
}

// lines returns the lines of a text, made visible.
func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if len(all) == maxLines {
			return append(all, "… more lines are in the JSON …")
		}
		line = strings.TrimRight(line, "\n")
		if len(line) > maxLine {
			line = strings.ToValidUTF8(line[:maxLine], "") + " …"
		}
		all = append(all, inspector.Visible(line))
	}
	return all
}
