package answer_test

import (
	"strings"
	"testing"

	"sidenote/proxy/answer"
	"sidenote/proxy/route"
)

// The diagnosis of the upstream's cache is read from messages and their streams, of any length and
// wherever the member is.
func TestCacheDiagnosis(t *testing.T) {
	f := func(diagnostics string, reason answer.CacheMiss, missed int64) {
		t.Helper()
		member := ""
		if diagnostics != "" {
			member = `,"diagnostics":` + diagnostics
		}
		const usage = `,"usage":{"input_tokens":9,"output_tokens":1}`
		long := strings.Repeat(`\"diagnostics\": null `, 900)
		for name, body := range map[string]string{
			"whole":       `{"id":"msg_1","type":"message","content":[{"type":"text","text":"Hi"}]` + usage + member + `}`,
			"whole, long": `{"id":"msg_1","type":"message","content":[{"type":"text","text":"` + long + `"}]` + usage + member + `}`,
			"early, long": `{"id":"msg_1","type":"message"` + member + `,"content":[{"type":"text","text":"` + long + `"}]` + usage + `}`,
			"stream": "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"content\":[]" + usage + member + "}}\n\n" +
				"event: content_block_delta\ndata: {\"delta\":{\"text\":\"" + long + "\"}}\n\nevent: message_delta\ndata: {\"usage\":{\"output_tokens\":3}}\n\n",
		} {
			for coding, pack := range map[string]func(string) []byte{"": func(s string) []byte { return []byte(s) }, "gzip": packers["gzip"]} {
				r := new(answer.UsageReader)
				r.Reset(route.Messages, name == "stream", coding)
				for _, p := range piecesUsage(string(pack(body)), 5) {
					r.Write([]byte(p))
				}
				r.Usage()
				if got, want := r.CacheDiagnosis(), (answer.CacheDiagnosis{ID: "msg_1", Reason: reason, Missed: missed}); got != want {
					t.Errorf("%s %s %s: got %+v, want %+v", name, coding, diagnostics, got, want)
				}
			}
		}
	}
	f("", answer.CacheMissUnread, 0)
	f("null", answer.CacheMissNone, 0)
	f(`{"cache_miss_reason":null}`, answer.CacheMissPending, 0)
	f(`{"cache_miss_reason":{"type":"system_changed","cache_missed_input_tokens":1500}}`, answer.CacheMissSystem, 1500)
	f(`{"x":{"type":"y"},"cache_miss_reason":{"cache_missed_input_tokens":7,"type":"tools_changed","x":[1]}}`, answer.CacheMissTools, 7)
	f(`{"cache_miss_reason":{"type":"previous_message_not_found"}}`, answer.CacheMissNotFound, 0)
	f(`{"cache_miss_reason":{"type":"a-new-one"}}`, answer.CacheMissOther, 0)
	f(`{"cache_miss_reason":{"type":7,"cache_missed_input_tokens":-1}}`, answer.CacheMissOther, 0)
}

// An error about diagnostics names the edit.
func TestDiagnosticsAreRefused(t *testing.T) {
	for _, text := range []string{
		`diagnostics: Extra inputs are not permitted`, "Unexpected value(s) `cache-diagnosis-2026-04-07` for the `anthropic-beta` header.",
		`diagnostics.previous_message_id: Input should be a valid string`,
	} {
		e := answer.ReadRefusedEdits(400, []byte(`{"type":"error","error":{"type":"invalid_request_error","message":"`+text+`"}}`))
		if e.Named != answer.EditDiagnostics {
			t.Errorf("%s: %v", text, e.Named)
		}
	}
}

// No answer makes reading a diagnosis panic, and reasons are from a closed list.
func FuzzCacheDiagnosis(f *testing.F) {
	f.Add(`{"id":"msg_1","diagnostics":{"cache_miss_reason":{"type":"system_changed","cache_missed_input_tokens":1}}}`, false)
	f.Add("data: {\"message\":{\"id\":\"a\",\"diagnostics\":null}}\n\n", true)
	f.Add(`"diagnostics":{`, false)
	f.Fuzz(func(t *testing.T, body string, stream bool) {
		r := new(answer.UsageReader)
		r.Reset(route.Messages, stream, "")
		r.Write([]byte(body))
		r.Usage()
		got := r.CacheDiagnosis()
		if got.Missed < 0 || got.Reason == "" || len(got.Reason) > len(answer.CacheMissNotFound) {
			t.Errorf("%+v", got)
		}
	})
}
