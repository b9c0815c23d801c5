package screen

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/client"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// An AnswerView shows a person the progress of an answer. The answer goes to Out and everything
// else to Err, so that the answer alone can be piped. It is safe for concurrent use.
type AnswerView struct {
	Out, Err io.Writer
	Terminal bool               // Out is a terminal, so text must be made safe
	Live     *terminal.Progress // progress, on Err; nil: not shown
	Stages   bool               // show the output of each stage before the answer
	Now      func() time.Time

	mu     sync.Mutex
	chain  []string // names of the stages; nil if none are expected
	at     int      // current stage, from 1; 0: none
	since  time.Time
	wrote  string // the last piece of the answer that was written
	silent bool   // progress is no longer shown
}

// Begin starts the display for a question that chain, the stages, may answer.
func (s *AnswerView) Begin(chain []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chain, s.since = chain, s.Now()
	s.at, s.Stages = min(1, len(chain)), s.Stages && len(chain) > 0
}

// tick is the interval at which progress is shown.
const tick = 200 * time.Millisecond

// Run shows progress until ctx ends.
func (s *AnswerView) Run(ctx context.Context) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		s.show()
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *AnswerView) show() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent || s.since.IsZero() {
		return
	}
	name := "waiting for the answer"
	if s.at > 0 {
		name = s.stage()
	}
	s.Live.Show(terminal.Work{Name: name, Note: fmt.Sprintf("%.1f s", s.Now().Sub(s.since).Seconds())})
}

// stage describes the current stage.
func (s *AnswerView) stage() string {
	return fmt.Sprintf("stage %d/%d  %s", s.at, len(s.chain), terminal.Clean(s.chain[s.at-1]))
}

// Follow returns the callbacks that show an answer while it arrives.
func (s *AnswerView) Follow() client.Follow {
	return client.Follow{Head: s.head, Stage: s.next, Text: s.text}
}

// head drops the chain if the answer is not made in stages.
func (s *AnswerView) head(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.HasPrefix(status, string(report.Staged)) {
		s.at, s.Stages = 0, false
	}
}

// next writes a line about the stage that has ended.
func (s *AnswerView) next(at, of int, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at <= s.at || of != len(s.chain) || at > of {
		return // the same stage continues, or it is unknown
	}
	s.over()
	s.at, s.since = at, s.Now()
}

// over writes a line about the stage that has ended or begins to answer.
func (s *AnswerView) over() {
	s.Live.Clear()
	switch s.at {
	case 0:
	case len(s.chain):
		fmt.Fprintln(s.Err, s.stage())
	default:
		fmt.Fprintf(s.Err, "%s  %s\n", s.stage(), seconds(s.Now().Sub(s.since)))
	}
}

// text writes more of the answer, unless the stages are to be shown before it.
func (s *AnswerView) text(more string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.Stages {
		s.write(more)
	}
}

func (s *AnswerView) write(text string) {
	if text == "" {
		return
	}
	if !s.silent {
		s.silent = true
		s.over()
	}
	if s.Terminal {
		text = strings.Map(visible, text)
	}
	fmt.Fprint(s.Out, text)
	s.wrote = text
}

// End shows the rest: the stages, if requested, and the sources and a summary of a whole answer.
func (s *AnswerView) End(a *client.Answer, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = true
	s.Live.Clear()
	if s.Stages {
		s.stages(a.Report.Stages)
		s.write(a.Text)
	}
	if s.wrote != "" && !strings.HasSuffix(s.wrote, "\n") {
		fmt.Fprintln(s.Out)
	}
	if whole {
		s.sources(a)
		if of := a.Report.Stages; of != nil && !s.Stages && chainEnd(of) != "" {
			fmt.Fprintln(s.Err, chainEnd(of))
		}
		fmt.Fprintln(s.Err, strings.Join(summary(a), ", "))
	}
}

// stages prints the output of each stage. That of the last is the answer.
func (s *AnswerView) stages(of *report.Stages) {
	if of == nil {
		return
	}
	for i := range of.Called {
		stage := &of.Called[i]
		parts := []string{terminal.Clean(stage.Model), seconds(stage.Took)}
		if stage.Calls == 0 && stage.Outcome == report.StageOK {
			parts[1] = "remembered"
		}
		parts = append(parts, used(stage.Usage)...)
		if stage.Outcome != report.StageOK {
			parts = append(parts, string(stage.Outcome))
		}
		parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
		fmt.Fprintf(s.Err, "=== stage %d/%d %s: %s\n", stage.At, of.Total, stage.Name, strings.Join(parts, ", "))
		if stage.Name != of.Answer || i < len(of.Called)-1 {
			fmt.Fprintf(s.Err, "%s\n\n", strings.TrimSpace(strings.Map(visible, stage.Output)))
		}
	}
	if end := chainEnd(of); end != "" {
		fmt.Fprintln(s.Err, "=== "+end)
	}
}

// chainEnd says how a chain ended before its last stage answered, or returns "".
func chainEnd(of *report.Stages) string {
	last := of.Last()
	answer := "; the answer is that of an ordinary chat"
	if of.Answer != "" {
		answer = "; the answer is what " + of.Answer + " said"
	}
	switch {
	case last == nil || last.Outcome == report.StageOK:
		return ""
	case last.Outcome == report.StageEmpty:
		return last.Name + " found nothing" + answer
	case last.Outcome == report.StageStopped:
		return last.Name + " ended the chain" + answer
	}
	return fmt.Sprintf("%s failed: %s%s", last.Name, last.Outcome, answer)
}

// sources lists the sources that the answer cites.
func (s *AnswerView) sources(a *client.Answer) {
	cited, shown := client.Cited(a.Text), a.Sources()
	fmt.Fprintln(s.Err)
	for _, id := range cited {
		at := slices.IndexFunc(shown, func(e rewrite.SourceEntry) bool { return e.ID == id })
		if at < 0 {
			fmt.Fprintf(s.Err, "%s is the id of no source\n", terminal.Mark(id))
			continue
		}
		fmt.Fprintf(s.Err, "%s %s\n", terminal.Mark(id), document(shown[at]))
	}
	if len(cited) == 0 && len(shown) > 0 {
		fmt.Fprintf(s.Err, "the answer cites none of %s\n", terminal.Plural(len(shown), "source"))
	}
}

// document formats the document and section of a source.
func document(e rewrite.SourceEntry) string {
	text := e.Doc
	if e.Section != "" {
		text += ", " + e.Section
	}
	return terminal.Clean(text)
}

// summary returns the parts of the last line: outcome, stages, sources, time and tokens.
func summary(a *client.Answer) []string {
	r := &a.Report
	parts := []string{string(r.Outcome)}
	if r.Reason != "" {
		parts[0] += ": " + string(r.Reason)
	}
	if of := r.Stages; of != nil {
		parts = append(parts, terminal.Plural(len(of.Called), "stage"))
	} else if r.StagesSkipped != "" {
		parts = append(parts, "not in stages: "+r.StagesSkipped)
	}
	parts = append(parts, terminal.Plural(len(a.Sources()), "source"), seconds(a.Took))
	return append(parts, used(r.Usage)...)
}

func used(u answer.Usage) []string {
	if !u.Known {
		return nil
	}
	return []string{terminal.Thousands(int(u.Input)) + " tokens in", terminal.Thousands(int(u.Output)) + " out"}
}

// seconds formats a duration for a person who waits.
func seconds(d time.Duration) string {
	if d < time.Second {
		return terminal.Short(d, 1)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
