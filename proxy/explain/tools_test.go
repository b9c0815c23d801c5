package explain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/retrieval"
)

// toolsOf returns the report of a chat with one tool call, with arguments, and one source.
func toolsOf(id, arguments string) *report.Report {
	r := injected(id)
	r.Outcome, r.Tools = report.WithTools, &report.Tools{Rounds: 2, Restored: 1, TurnLoss: report.TurnUnsound, Ended: true}
	r.Calls = append(r.Calls, report.Call{Upstream: "openai", Purpose: report.ToTools, Status: 200, Took: 8 * time.Millisecond, PromptTokens: 420})
	r.Tools.StartAt(2)
	r.Tools.Add(
		report.ToolCall{Round: 1, Name: "read_knowledge", Arguments: arguments, Hits: 1, Tokens: 80, Took: 1500 * time.Microsecond, Outcome: report.ToolOK},
		[]retrieval.Source{{Knowledge: "handbook", Doc: "travel.md", Chunk: 3, Name: "Travel", Section: "Trains", Relevance: .75, Text: "the text of a source"}},
	)
	return r
}

// Each call is explained. Its arguments are kept in the form of bodies, without keys.
func TestToolsAreExplained(t *testing.T) {
	for bodies, want := range map[explain.Bodies]string{
		explain.BodiesOff:      ``,
		explain.BodiesRedacted: `"arguments":"{\"query\":\"(23 bytes)\",\"top_k\":5}",`,
		explain.BodiesFull:     `"arguments":"{\"query\":\"trains (a key)\", \"top_k\": 5}",`,
	} {
		r := explain.New(3, bodies)
		of := toolsOf("a", `{"query":"trains sk-sidenote-1234", "top_k": 5}`)
		r.Record(of)
		if of.Tools.Calls[0].Arguments == "" || len(of.Tools.Sources) != 1 {
			t.Error("the report was changed") // it is read concurrently
		}
		e := find(t, r, "a")
		got, err := json.Marshal(e.Tools)
		if err != nil {
			t.Fatal(err)
		}
		if w := `{"rounds":2,"tokens":80,"restored":1,"unkept":"unsound","calls":[{"round":1,"tool":"read_knowledge",` + want + `"hits":1,"tokens":80,"took_ms":1.5,"outcome":"ok"}],` +
			`"sources":[{"id":2,"kb_id":"handbook","doc_id":"travel.md","chunk":3,"name":"Travel","section":"Trains","relevance":0.75}]}`; string(got) != w {
			t.Errorf("%s\ngot  %s\nwant %s", bodies, got, w)
		}
		if len(e.Calls) != 2 || e.Calls[1].Purpose != report.ToTools || e.Calls[1].PromptTokens != 420 {
			t.Errorf("calls %+v", e.Calls)
		}
	}
	r := explain.New(1, explain.BodiesFull)
	of := injected("b")
	of.ToolsSkipped = "choices"
	r.Record(of)
	if e := find(t, r, "b"); e.ToolsSkipped != "choices" || e.Tools != nil {
		t.Errorf("%+v", e)
	}
}

// However many and large the calls of a model are, a limited part is kept and the rest counted.
func TestManyCallsAreCounted(t *testing.T) {
	for _, bodies := range []explain.Bodies{explain.BodiesRedacted, explain.BodiesFull} {
		r, of := explain.New(2, bodies), toolsOf("a", strings.Repeat("x", 8<<20))
		for i := range 400 {
			sources := []retrieval.Source{{Doc: fmt.Sprint(i)}}
			of.Tools.Add(report.ToolCall{Name: "recall", Arguments: `{"` + strings.Repeat("a", 60) + `":"` + strings.Repeat("ü", 1000), Tokens: 1}, sources)
		}
		r.Record(of)
		e := find(t, r, "a").Tools
		if len(e.Calls) != 50 || e.CallsOmitted != 351 || e.Tokens != 480 || len(e.Sources) > 100 || len(e.Sources) < 50 {
			t.Errorf("%s: %d calls, %d beyond, %d tokens, %d sources", bodies, len(e.Calls), e.CallsOmitted, e.Tokens, len(e.Sources))
		}
		for _, c := range e.Calls {
			if len(c.Arguments) > 300 || strings.Contains(c.Arguments, "\ufffd") {
				t.Fatalf("%s: %d bytes: %s", bodies, len(c.Arguments), c.Arguments)
			}
		}
	}
}
