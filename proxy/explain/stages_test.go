package explain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
)

// stagesOf returns the report of a chat whose second stage failed.
func stagesOf(id, request, output string) *report.Report {
	r := injected(id)
	r.Outcome, r.Stages = report.Staged, &report.Stages{Total: 3, Answer: "draft", Ended: true, Called: []report.Stage{
		{
			Name: "draft", At: 1, Model: "gpt-5-mini", Calls: 1, Status: 200, Took: 1500 * time.Microsecond, Outcome: report.StageOK, Finish: "stop",
			Usage: answer.Usage{Input: 900, CachedInput: 100, CacheWrite: 300, CacheWrite1h: 200, Output: 120, Reasoning: 20, Known: true}, Request: []byte(request), Output: output,
		},
		{Name: "critic", At: 2, Upstream: "other", Model: "judge", Outcome: report.StageConnect},
	}}
	return r
}

// Each stage is explained. Its input and output are kept in the form of bodies, without keys.
func TestStagesAreExplained(t *testing.T) {
	const request, output = `{"messages":[{"role":"user","content":"Quote sk-sidenote-1234"}], "temperature": 0.3}`, "It is sk-sidenote-1234 [1]."
	for bodies, want := range map[explain.Bodies]string{
		explain.BodiesOff:      ``,
		explain.BodiesRedacted: `,"request":{"bytes":85,"text":"{\"messages\":[{\"role\":\"user\",\"content\":\"(22 bytes)\"}],\"temperature\":0.3}"},"output":{"bytes":27,"text":"(27 bytes)"}`,
		explain.BodiesFull:     `,"request":{"bytes":85,"text":"{\"messages\":[{\"role\":\"user\",\"content\":\"Quote (a key)\"}], \"temperature\": 0.3}"},"output":{"bytes":27,"text":"It is (a key) [1]."}`,
	} {
		r := explain.New(3, bodies)
		of := stagesOf("a", request, output)
		r.Record(of)
		if s := of.Stages.Called[0]; string(s.Request) != request || s.Output != output {
			t.Error("the report was changed") // it is read concurrently
		}
		copy(of.Stages.Called[0].Request, "overwritten") // its memory is reused
		of.Stages.Called[1].Name = "overwritten"
		got, err := json.Marshal(find(t, r, "a").Stages)
		if err != nil {
			t.Fatal(err)
		}
		if w := `{"of":3,"answer":"draft","called":[{"stage":"draft","at":1,"upstream":"openai","model":"gpt-5-mini","calls":1,"status":200,"took_ms":1.5,"outcome":"ok","finish_reason":"stop",` +
			`"usage":{"input_tokens":900,"cached_input_tokens":100,"cache_write_tokens":300,"cache_write_1h_tokens":200,"output_tokens":120,"reasoning_tokens":20}` + want + `},` +
			`{"stage":"critic","at":2,"upstream":"other","model":"judge","calls":0,"took_ms":0,"outcome":"connect"}]}`; string(got) != w {
			t.Errorf("%s\ngot  %s\nwant %s", bodies, got, w)
		}
	}
	r := explain.New(1, explain.BodiesFull)
	of := injected("b")
	of.StagesSkipped = "choices"
	r.Record(of)
	if e := find(t, r, "b"); e.StagesSkipped != "choices" || e.Stages != nil {
		t.Errorf("%+v", e)
	}
}

// Only a limited part of the input and output of each stage is kept, and in total no more than of
// other bodies: the oldest are dropped first, their reports stay.
func TestLongStagesAreCut(t *testing.T) {
	long := strings.Repeat("ü", 1<<20)
	if testing.Short() {
		long = long[:1<<18]
	}
	for _, bodies := range []explain.Bodies{explain.BodiesRedacted, explain.BodiesFull} {
		r, of := explain.New(400, bodies), stagesOf("0", long, long)
		of.Stages.Called[0].Model, of.Stages.Called[0].Finish = "x"+long, "x"+long
		for i := range 400 {
			of.ID = fmt.Sprint(i)
			r.Received(of, []byte(`{"messages":[]}`))
			r.Record(of)
		}
		kept := 0
		for i := range 400 {
			s := find(t, r, fmt.Sprint(i)).Stages.Called[0]
			if len(s.Model) > 300 || len(s.Finish) > 300 {
				t.Fatalf("%s: model of %d bytes, %d", bodies, len(s.Model), len(s.Finish))
			}
			if s.Request == nil {
				continue
			}
			if s.Request.Bytes != len(long) || s.Output.Bytes != len(long) || len(s.Request.Text) > 66<<10 || len(s.Output.Text) > 66<<10 {
				t.Fatalf("%s: %d of %d bytes, %d of %d", bodies, len(s.Request.Text), s.Request.Bytes, len(s.Output.Text), s.Output.Bytes)
			}
			kept += len(s.Request.Text) + len(s.Output.Text)
		}
		if whole := bodies == explain.BodiesRedacted; kept > 32<<20 || !whole && kept < 31<<20 || whole && kept == 0 {
			t.Errorf("%s: %d bytes", bodies, kept)
		}
		if e := find(t, r, "0"); (e.Received == nil) != (bodies == explain.BodiesFull) {
			t.Errorf("%s: the oldest has %v", bodies, e.Received)
		}
	}
}

// All bodies of each request are kept, even if all requests have the maximum; and a tenant sees
// its own.
func TestStagesBesideBodies(t *testing.T) {
	r := explain.New(2, explain.BodiesFull)
	for _, id := range []string{"a", "b"} {
		of := stagesOf(id, "asked of "+id, "said by "+id)
		r.Received(of, []byte("came"))
		for range 5 { // one for each call
			r.Sent(of, [][]byte{[]byte("long")})
		}
		r.Sent(of, [][]byte{[]byte("short")})
		r.Record(of)
	}
	for _, id := range []string{"a", "b"} {
		e := find(t, r, id)
		if s := e.Stages.Called[0]; e.Received == nil || e.Sent == nil || e.Sent.Text != "short" || s.Request.Text != "asked of "+id || s.Output.Text != "said by "+id {
			t.Errorf("%s: %+v", id, e)
		}
	}
	forged := injected("a")
	forged.Tenant, forged.Stages = "beta", &report.Stages{Total: 1, Called: []report.Stage{{Name: "draft"}}}
	r = explain.New(2, explain.BodiesFull)
	r.Record(forged) // is found first
	r.Record(stagesOf("a", "of acme", "of acme"))
	if s := find(t, r, "a").Stages.Called[0]; s.Request != nil || s.Output != nil {
		t.Errorf("a tenant sees another's: %+v", s)
	}
}
