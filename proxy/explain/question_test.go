package explain_test

import (
	"strings"
	"testing"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
)

// The question of a request is returned only to its tenant, while its complete body is kept.
func TestQuestion(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"How long?"},{"role":"assistant","content":"What?"},{"role":"user","content":%}]}`
	of := &report.Report{ID: "a", Tenant: "acme"}
	f := func(content, want string) {
		t.Helper()
		r := explain.New(1, explain.BodiesFull)
		r.Received(of, []byte(strings.Replace(body, "%", content, 1)))
		r.Sent(of, [][]byte{[]byte(`{"messages":[{"role":"user","content":"not this"}]}`)})
		if got := r.Question("a", "acme"); got != want {
			t.Errorf("%.60s: got %q, want %q", content, got, want)
		}
		if got := r.Question("a", "another") + r.Question("b", "acme"); got != "" {
			t.Errorf("others are told %q", got)
		}
	}
	f(`"Parental leave."`, "Parental leave.")
	f(`[{"type":"text","text":"In parts"}]`, "In parts")
	f(`"Is sk-sidenote-1234 yours?"`, "Is (a key) yours?")
	f(`"`+strings.Repeat("x", 250)+` sk-sidenote-1234"`, strings.Repeat("x", 250)+" (a ke …")
	f(`"`+strings.Repeat("x", 70<<10)+`"`, "")
	// Wherever keys are, none begins in the part of a long question that is not masked.
	for n := range 100 {
		r := explain.New(1, explain.BodiesFull)
		question := strings.Repeat("y", n) + strings.Repeat(" sk-"+strings.Repeat("x", 80), 30)
		r.Received(of, []byte(strings.Replace(body, "%", `"`+question+`"`, 1)))
		if got := r.Question("a", "acme"); strings.Contains(got, "sk-") || !strings.Contains(got, " (a key) (a key)") {
			t.Fatalf("after %d bytes: %s", n, got)
		}
	}
	f(`[]`, "")
	f(`}`, "")
	var none *explain.Ring
	if none.HasQuestions() || explain.New(1, explain.BodiesRedacted).HasQuestions() || !explain.New(1, explain.BodiesFull).HasQuestions() {
		t.Error("texts are kept only where bodies are full")
	}
}
