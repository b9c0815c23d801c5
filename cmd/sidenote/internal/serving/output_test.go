package serving

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/report"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// A repeated line is written once, then once a minute with the number of repetitions; lines that
// no longer occur are forgotten.
func TestLinesThatNoLongerComeAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := NewOutput(&log, config.Log{Format: "text"})
		for i := range 5000 {
			o.Log(slog.LevelWarn, fmt.Sprint("failure ", i))
		}
		for range 3 {
			o.Log(slog.LevelWarn, "failure 7")
		}
		if n := len(o.told); n > maxTold {
			t.Errorf("%d lines are remembered", n)
		}
		time.Sleep(tellEvery)
		o.Log(slog.LevelWarn, "another")
		if n := len(o.told); n != 1 {
			t.Errorf("%d lines are remembered after a minute", n)
		}
		o.Close()
		if got := strings.Count(log.String(), "failure 7 (and 2 times more)"); got != 1 || strings.Count(log.String(), "another") != 1 {
			t.Errorf("told %d times:\n%s", got, tail(log.String()))
		}
	})
}

func tail(s string) string { return s[max(0, len(s)-400):] }

// The text log shows a truncated answer, also if only errors are logged.
func TestCutIsShown(t *testing.T) {
	for _, end := range []report.ClientEnd{report.ClientCutUpstream, report.ClientCutShutdown, report.ClientCompleted} {
		var text strings.Builder
		(&lines{w: &text, requests: report.LogErrors}).Record(&report.Report{Status: 200, Outcome: report.Relayed, Client: end})
		if cut := end != report.ClientCompleted; strings.Contains(text.String(), string(end)) != cut {
			t.Errorf("%s: %q", end, text.String())
		}
	}
}

// The text log adds the sources and tokens of tools to those up front, and shows the calls.
func TestToolsAreShown(t *testing.T) {
	r := &report.Report{Status: 200, Outcome: report.WithTools, Client: report.ClientCompleted, Tools: &report.Tools{}}
	r.Rewrite.Ledger = rewrite.Ledger{Used: 100, Exactness: rewrite.Exact, Sources: []rewrite.SourceEntry{{ID: 1, Doc: "a.md"}}}
	r.Tools.StartAt(2)
	r.Tools.Add(report.ToolCall{Name: "recall", Tokens: 60}, []retrieval.Source{{Doc: "b.md"}})
	var text strings.Builder
	(&lines{w: &text}).Record(r)
	if !strings.Contains(text.String(), "  1 call  2 sources  160 tokens  ") || !strings.Contains(text.String(), "  a.md, b.md") {
		t.Errorf("%q", text.String())
	}
}
