package explain_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
)

// An explanation has the ids under which others know the request.
func TestExplanationHasIDs(t *testing.T) {
	r := reporttest.Injected()
	r.ID, r.TraceID, r.RequestID = "01JD3", trace.TraceID{0xab}, "app-7"
	r.Calls = []report.Call{{Upstream: "openai", Status: 429, RequestID: "req_0"}, {Upstream: "openai", Status: 200, RequestID: "req_1"}}
	ring := explain.New(1, explain.BodiesOff)
	ring.Record(r)
	e, _, _ := ring.Find("01JD3")
	got, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"id":"01JD3","trace_id":"ab` + strings.Repeat("0", 30) + `","request_id":"app-7","upstream_request_id":"req_1",`,
		`"status":429,"took_ms":0,"request_id":"req_0"}`, `"status":200,"took_ms":0,"request_id":"req_1"}`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}
