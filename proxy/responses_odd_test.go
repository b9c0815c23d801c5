package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// oddAnswers are streams that break the rules of the Responses API.
var oddAnswers = map[string]string{
	"no end": `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","output":[]}}
{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}
{"type":"response.output_text.delta","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"It is 16 weeks [1]"}`,
	"out of order": `{"type":"response.output_text.delta","sequence_number":7,"item_id":"msg_1","output_index":3,"content_index":0,"delta":"weeks"}
{"type":"response.output_item.added","sequence_number":2,"output_index":3,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}
{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","output":[]}}
{"type":"response.completed","sequence_number":9,"response":{"id":"resp_1","status":"completed","output":[]}}
{"type":"response.output_text.delta","sequence_number":8,"item_id":"msg_1","output_index":3,"content_index":0,"delta":"late"}`,
	"gaps":          `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","output":[]}}` + "\n" + `{"type":"response.completed","sequence_number":99,"response":{"id":"resp_1","status":"completed","output":[]}}`,
	"unknown event": `{"type":"response.something.new","sequence_number":0,"output_index":"x"}` + "\n" + `{"type":7}` + "\n" + `[1]`,
	"two ends": `{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}` + "\n" +
		`{"type":"response.failed","response":{"id":"resp_1","status":"failed","output":null}}`,
	"output of a wrong type": `{"type":"response.completed","response":{"id":7,"status":"completed","output":{"0":"a"},"usage":[]}}`,
	"an error":               `{"type":"error","code":"server_error","message":"Broken.","param":null,"sequence_number":3}`,
	"nothing":                ``,
}

// Streams that break the rules of the Responses API, and answers that are too large to be read,
// reach the client byte for byte, whether only sources were added or tools were offered.
func TestOddResponses(t *testing.T) {
	answers := map[string][2]string{}
	for name, text := range oddAnswers {
		var events strings.Builder
		for line := range strings.Lines(text) {
			fmt.Fprintf(&events, "data: %s\n\n", strings.TrimSpace(line))
		}
		answers[name] = [2]string{"text/event-stream", events.String()}
	}
	size := 64 << 20
	if testing.Short() {
		size = 17 << 20 // above what tool rounds read
	}
	answers["large"] = [2]string{"application/json", `{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"` + strings.Repeat("weeks ", size/6) + `[1]","annotations":[]}]}]}`}
	var answer [2]string
	u := newUpstream(t, func(_ seen, w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", answer[0], len(answer[1]), answer[1])
	})
	base := strings.TrimSuffix(u.url.String(), "/v1")
	for _, mode := range []rewrite.Mode{rewrite.Inject, rewrite.Tools} {
		g := start(t, withTools(t, base, func(p *tenant.Policy) { p.Rewrite.Mode = mode }), staff{})
		for name, a := range answers {
			answer = a
			body := fmt.Sprintf(`{"model":"m","stream":%t,"input":"How long is leave?"}`, a[0] != "application/json")
			resp, err := http.Post("http://"+g.addr+"/v1/responses", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			want := []byte(a[1])
			if mode == rewrite.Tools { // the comment with what the tools did comes near the end
				at := bytes.Index(got, []byte(": sidenote-status: "))
				if end := bytes.Index(got[max(at, 0):], []byte("\n\n")); at >= 0 && end >= 0 {
					got = append(got[:at:at], got[at+end+2:]...)
				}
			}
			if err != nil || resp.StatusCode != http.StatusOK || !bytes.Equal(got, want) {
				t.Errorf("%s, %s: %d %v, %d bytes of %d: %.2000s", mode, name, resp.StatusCode, err, len(got), len(want), got)
			}
			if status := resp.Header.Get(report.HeaderStatus); !strings.Contains(status, "api=responses") {
				t.Errorf("%s, %s: %s", mode, name, status)
			}
		}
	}
}
