package screen

import (
	"strings"
	"testing"
	"time"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/rewrite"
)

// Text of documents and requests cannot change the terminal.
func TestExplanationIsPlainText(t *testing.T) {
	evil := "\x1b[31mred\u202e\r"
	e := &explain.Explanation{
		ID: "a", Time: time.Now(), Tenant: "acme", Policy: "base", Route: route.Chat, Mode: "inject", Stream: true,
		Outcome: rewrite.Injected, Reason: rewrite.ReasonTimeout, Detail: evil, Status: 200, Upstream: "u",
		Calls:   []explain.Call{{Upstream: "u", Purpose: report.ToAnswer, Status: 400}, {Upstream: "u", Purpose: report.ToRetryShorter, Status: 200}, {Upstream: "u", Purpose: report.ToTools, Status: 201}},
		Partial: true, Cache: "hit", Client: report.ClientCutUpstream,
		Ledger: &explain.Ledger{Ledger: rewrite.Ledger{
			Notes:      []string{evil},
			Components: []rewrite.ComponentEntry{{Name: "rules", Inclusion: rewrite.Included, Tokens: 7}},
			Sources:    []rewrite.SourceEntry{{ID: 1, Knowledge: "kb", Doc: evil, Name: evil, Section: evil, Score: 3, Relevance: .75, Reranked: new(.0625), Inclusion: rewrite.Cut, Detail: evil}},
		}},
		Tools: &explain.Tools{
			Rounds: 3, Tokens: 1132, Restored: 1, TurnLoss: report.TurnTooLarge, CallsOmitted: 2,
			Calls:   []explain.ToolCall{{Round: 1, Tool: "recall", Arguments: `{"query":"` + evil + "\nforged  line\"}", Hits: 2, Tokens: 1132, Took: 12.34, Outcome: report.ToolOK}, {Round: 2, Tool: "recall", Outcome: report.ToolRepeated}},
			Sources: []explain.ToolSource{{ID: 7, Knowledge: "kb", Doc: "a", Name: evil, Section: "B", Relevance: .875}},
		},
		Usage: &explain.Usage{Input: 3210, Output: 54}, ToolsSkipped: evil,
		Received: &explain.Body{Bytes: 9000, Text: "{\n\t\"a\": " + evil + "}"},
	}
	var w strings.Builder
	Explanation(&w, e)
	if got := w.String(); strings.ContainsAny(got, "\x1b\u202e\r") || strings.Count(got, "31mred") != 10 {
		t.Errorf("%q", got)
	}
	for _, want := range []string{
		"tenant acme, policy base, chat, mode inject, streamed\n",
		"injected: retrieval-timeout, status 200, upstream u answered 400, sent again with fewer sources, upstream u answered 200, sent again with what tools gave, upstream u answered 201, cut_by_upstream, not all knowledge was searched, cache hit\n",
		"in        rules, 7 tokens\n", "cut  [1]  kb/", ", score 3.0, relevance 0.75, rerank 0.0625, 0 tokens",
		"tools: 3 rounds, 4 calls, 1,132 tokens of results, 1 earlier turn put back, its own is not kept (size); all rounds used 3,210 tokens of input, 54 of output\n",
		"\n  ROUND  TOOL               HITS  TOKENS        MS  OUTCOME   ARGUMENTS\n",
		"\n      1  recall                2   1,132      12.3  ok        {\"query\":\"·[31mred··", "\n      2  recall                0       0       0.0  repeated\n  and 2 more\n",
		"\ntool [7]  kb/a#0  ·[31mred·· > B, relevance 0.88\n", "tools not offered: ·[31mred",
		"\nreceived 9,000 bytes\n{\n\t\"a\": ",
	} {
		if !strings.Contains(w.String(), want) {
			t.Errorf("%q is not in\n%s", want, w.String())
		}
	}
}

// The upstream's diagnosis of its cache is shown.
func TestExplanationOfCacheMiss(t *testing.T) {
	var w strings.Builder
	Explanation(&w, &explain.Explanation{Outcome: rewrite.Injected, CacheMiss: &explain.CacheMiss{Reason: "system_changed", Tokens: 1700}})
	if want := "prompt cache, as the upstream says: system_changed, about 1,700 tokens missed\n"; !strings.Contains(w.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", w.String(), want)
	}
}

// The usage of an answer is shown with what was added, or why it is ignored.
func TestExplanationOfUsage(t *testing.T) {
	f := func(u explain.Usage, want string) {
		t.Helper()
		var w strings.Builder
		Explanation(&w, &explain.Explanation{Outcome: rewrite.Injected, Usage: &u})
		if !strings.Contains(w.String(), want) {
			t.Errorf("got\n%s\nwant\n%s", w.String(), want)
		}
	}
	f(explain.Usage{Found: "found", Input: 5000, CachedInput: 3000, CacheWrite: 1500, Output: 10, Context: &explain.ContextUsage{Input: 1000, CachedInput: 300, CacheWrite: 600, USD: new(.00125)}},
		"5,000 tokens in, 60.0 % cached, 1,500 written to the cache; 10 out\nof these 1,000 added: 300 cached, 600 written, $0.001250 (estimated)\n")
	f(explain.Usage{Found: "found", Input: 8, Output: 1, Context: &explain.ContextUsage{Input: 2}}, "of these 2 added: 0 cached, 0 written (estimated)\n")
	f(explain.Usage{Found: "inconsistent", Detail: "input 9, of it cached 10 and written 0"}, "usage ignored, inconsistent: input 9, of it cached 10 and written 0\n")
}
