package inspector

import (
	"fmt"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

// barWidth is the width of a bar in units of its drawing.
const barWidth = 1000

// A bar is a horizontal bar of adjacent parts.
type bar struct {
	Label string // describes the bar in words
	Total int
	Parts []part
}

// A part is a segment of a bar.
type part struct {
	Name     string
	Tokens   int
	Class    string  // CSS class of its colour
	X, Width float64 // in the drawing
}

// draw places the parts that have tokens.
func (b *bar) draw(parts []part) *bar {
	x := 0.0
	for _, p := range parts {
		if p.Tokens <= 0 {
			continue
		}
		p.X, p.Width = x, barWidth*float64(p.Tokens)/float64(max(b.Total, 1))
		x += p.Width
		b.Parts = append(b.Parts, p)
	}
	return b
}

// Limits of a bar: further parts are merged, as are further steps of the timeline.
const (
	maxParts = 24
	maxSteps = 24
	maxName  = 60 // bytes of a document's id
)

// sourceColors is the number of colours that sources alternate between.
const sourceColors = 4

// budgetBar shows what the token budget was spent on; nil if there was none.
func budgetBar(l *explain.Ledger, sources []rewrite.SourceEntry) *bar {
	if l.Budget <= 0 {
		return nil
	}
	parts := []part{{Name: "Rules", Tokens: l.Rules, Class: "rules"}}
	for _, c := range l.Components {
		if c.Name != rewrite.SourcesName {
			parts = append(parts, part{Name: c.Name, Tokens: c.Tokens, Class: "component"})
		}
	}
	more := part{Class: "source0"}
	for i := range sources {
		s := &sources[i]
		switch {
		case s.ID == 0:
		case len(parts) < maxParts:
			parts = append(parts, part{Name: fmt.Sprintf("[%d] %s", s.ID, cutAt(s.Doc, "", maxName).Text), Tokens: s.Tokens, Class: fmt.Sprintf("source%d", s.ID%sourceColors)})
		default:
			more.Tokens += s.Tokens
			more.Name = "Sources behind these"
		}
	}
	parts = append(parts, more)
	rest := l.Used
	for _, p := range parts {
		rest -= p.Tokens
	}
	parts = append(parts, part{Name: "Tags around them", Tokens: rest, Class: "tags"}, part{Name: "Free", Tokens: l.Budget - l.Used, Class: "free"})
	b := &bar{Label: fmt.Sprintf("%s of %s tokens are used", count(l.Used), count(l.Budget)), Total: max(l.Budget, l.Used)}
	return b.draw(parts)
}

// windowBar shows how the model's window was used; nil if the window is unknown.
func windowBar(l *explain.Ledger) *bar {
	w := &l.Window
	if w.Size <= 0 {
		return nil
	}
	b := &bar{Label: fmt.Sprintf("The model's window has %s tokens", count(w.Size)), Total: max(w.Size, w.Request+l.Grown()+w.ReservedOutput)}
	came := "The request as it came"
	if w.Check == model.CheckBound {
		came += ", at most" // it was not counted
	}
	return b.draw([]part{
		{Name: came, Tokens: w.Request, Class: "rules"},
		{Name: "Added", Tokens: l.Grown(), Class: "source1"},
		{Name: "Reserved for the answer", Tokens: w.ReservedOutput, Class: "component"},
		{Name: "Free", Tokens: w.Size - w.Request - l.Grown() - w.ReservedOutput, Class: "free"},
	})
}

// A step is a line of the timeline.
type step struct {
	Name, Detail string
	Outcome      string
	Took         float64 // milliseconds
	X, Width     float64 // in the drawing
	Class        string
}

// stepsOf lists the steps of a request one after the other; their start times were not measured.
func stepsOf(e *explain.Explanation) []step {
	t := &e.Timings
	var steps []step
	add := func(class, name string, took float64, outcome, detail string) {
		if took > 0 {
			steps = append(steps, step{Name: name, Took: took, Outcome: outcome, Detail: detail, Class: class})
		}
	}
	add("rules", "Plan queries", t.Plan, "", "")
	add("source1", "Search", t.Retrieve-t.Rerank-t.Grade, string(e.Cache), "")
	add("source2", "Rerank", t.Rerank, "", "")
	add("source3", "Grade", t.Grade, "", "")
	add("component", "Fit into the budget", t.Fit, "", "")
	add("component", "Edit the body", t.Edit, "", "")
	if e.Stages != nil {
		for i := range e.Stages.Called {
			s := &e.Stages.Called[i]
			add("tags", "Stage "+s.Name, s.Took, string(s.Outcome), fmt.Sprintf("%d of %d, %s at %s", s.At, e.Stages.Total, s.Model, s.Upstream))
		}
	}
	for i, c := range e.Calls {
		if c.Purpose != report.ToStage {
			add("tags", "Call of "+c.Upstream, c.Took, statusText(c.Status), purposes[c.Purpose])
		}
		if e.Tools != nil {
			for _, tool := range e.Tools.Calls {
				if tool.Round == i+1 {
					add("source1", "Tool "+tool.Tool, tool.Took, string(tool.Outcome), fmt.Sprintf("round %d, %d hits, %s tokens", tool.Round, tool.Hits, count(tool.Tokens)))
				}
			}
		}
	}
	return drawSteps(steps, t.Total)
}

func statusText(status int) string {
	if status == 0 {
		return "no answer"
	}
	return fmt.Sprint(status)
}

// purposes describes in words why an upstream was called.
var purposes = map[report.Purpose]string{
	report.ToAnswer: "until its answer began", report.ToRetryShorter: "again with fewer sources, as it was too long", report.ToRetryEdits: "again without edits that it refused", report.ToTools: "with the results of tools",
}

// drawSteps places steps one after the other. The remaining time becomes the step "Other".
func drawSteps(steps []step, total float64) []step {
	if n := len(steps) - maxSteps; n > 0 {
		more := step{Name: fmt.Sprintf("%d more steps", n), Class: "component"}
		for _, s := range steps[maxSteps:] {
			more.Took += s.Took
		}
		steps = append(steps[:maxSteps], more)
	}
	sum := 0.0
	for i := range steps {
		sum += steps[i].Took
	}
	if rest := total - sum; rest > 0 {
		steps = append(steps, step{Name: "Other", Took: rest, Detail: "reading, waiting and the answer's stream", Class: "free"})
		sum = total
	}
	x := 0.0
	for i := range steps {
		s := &steps[i]
		s.X, s.Width = barWidth*x/sum, max(barWidth*s.Took/sum, 2)
		x += s.Took
	}
	return steps
}
