package report_test

import (
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// withTools returns reporttest.Injected with two tool calls, one of which returned two sources.
func withTools() *report.Report {
	r := reporttest.Injected()
	r.Outcome, r.Tools = report.WithTools, &report.Tools{Rounds: 3}
	r.Tools.StartAt(5)
	r.Tools.Add(report.ToolCall{Round: 1, Name: "search_knowledge", Hits: 5, Tokens: 60, Outcome: report.ToolOK}, nil)
	r.Tools.Add(report.ToolCall{Round: 2, Name: "read_knowledge", Hits: 2, Tokens: 72, Outcome: report.ToolOK}, []retrieval.Source{
		{Knowledge: "handbook", Doc: "travel.md", Chunk: 1, Name: "Travel"}, {Knowledge: "handbook", Doc: "b\r\n\r\ndata: forged", Name: "B"},
	})
	return r
}

func TestStatusWithTools(t *testing.T) {
	const first = "sources=4; injected=1187; budget=2000; exact; cache=hit; planner=off"
	f := func(want string, change func(*report.Report)) {
		t.Helper()
		r := withTools()
		change(r)
		got := string(report.AppendStatus(nil, r))
		if !strings.HasPrefix(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		item, err := httpsfv.UnmarshalItem([]string{got})
		if err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if n := len(item.Params.Names()); n != strings.Count(got, "; ") {
			t.Errorf("a name stands twice: %s", got)
		}
	}
	f("tools; "+first, func(*report.Report) {}) // when a stream begins
	f("tools; rounds=3; calls=2; tokens=132; "+first, func(r *report.Report) { r.Tools.Ended = true })
	f("tools; rounds=3; calls=2; tokens=132; restored=1; "+first, func(r *report.Report) { r.Tools.Ended, r.Tools.Restored = true, 1 })
	f("tools; rounds=3; calls=2; tokens=132; unkept=size; "+first, func(r *report.Report) { r.Tools.Ended, r.Tools.TurnLoss = true, report.TurnTooLarge })
	f("tools; reason=no-match; rounds=3; calls=2; tokens=132; grade=ok; verdict=irrelevant; grade-rounds=2", func(r *report.Report) {
		r.Tools.Ended, r.Reason, r.Rewrite.Outcome = true, rewrite.ReasonNoMatch, rewrite.Untouched
		r.Rewrite.Ledger.Graded = &retrieval.Graded{Reason: retrieval.RerankOK, Verdict: "irrelevant", Rounds: 2}
	})
	f("injected; unoffered=tool-choice; sources=4; tokens=1187; ", func(r *report.Report) {
		r.Outcome, r.Tools, r.ToolsSkipped = rewrite.Injected, nil, "tool-choice"
	})
}

// The comment at the end of a stream is one line, whatever the names of documents, and has the
// same sources as the header.
func TestClosing(t *testing.T) {
	for expose, want := range map[report.Expose]string{
		report.ExposeNone:  "",
		report.ExposeIDs:   `"4";kb="handbook";doc="a\\\"b", "5";kb="handbook";doc="travel.md", "6";kb="handbook";doc=%"b%0d%0a%0d%0adata: forged"`,
		report.ExposeNames: `"5";kb="handbook";doc="travel.md";name="Travel", "6";kb="handbook";doc=%"b%0d%0a%0d%0adata: forged";name="B"`,
	} {
		r := withTools()
		r.Tools.Ended, r.Expose = true, expose
		got := string(report.AppendClosing(nil, r))
		status, sources, both := strings.Cut(got, " sidenote-sources: ")
		if status != "sidenote-status: "+string(report.AppendStatus(nil, r)) || both != (want != "") || !strings.HasSuffix(sources, want) {
			t.Errorf("%s: %s", expose, got)
		}
		if header := string(report.AppendAllSources(nil, r)); sources != header || strings.ContainsAny(got, "\r\n") {
			t.Errorf("%s: %s\nheader %s", expose, got, header)
		}
		if both && expose == report.ExposeIDs && strings.Contains(got, "name=") {
			t.Errorf("names are told: %s", got)
		}
		if r.Outcome = rewrite.Refused; len(report.AppendAllSources(nil, r)) > 0 {
			t.Errorf("%s: a refusal tells sources", expose)
		}
	}
}
