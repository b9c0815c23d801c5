package inspector

import (
	"strings"
	"testing"
	"time"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// keep returns what is kept of a request with a body.
func keep(t *testing.T, bodies explain.Bodies, body string) (*explain.Explanation, bool) {
	t.Helper()
	r := explain.New(1, bodies)
	of := &report.Report{ID: "a", Tenant: "acme"}
	of.Rewrite.Ledger = rewrite.Ledger{Model: `gpt-"5"`, Edits: []rewrite.Edit{}}
	r.Received(of, []byte(body))
	r.Record(of)
	e, _, _ := r.Find("a")
	return e, r.HasQuestions()
}

// A complete body is asked unchanged; of an incomplete one, only the last user message, if that is
// complete.
func TestAgain(t *testing.T) {
	long := strings.Repeat("x", 80<<10)
	system := `{"model":"m","messages":[{"role":"system","content":"` + long + `"}`
	quoting := `,{"role":"assistant","content":"say {\"role\":\"user\",\"content\":\"no\"}"}]}`
	const only = `{"model":"gpt-\"5\"","messages":[{"role":"user","content":`
	short := `{"messages":[ {"role":"user","content":"How?"}]}`
	for _, c := range []struct{ name, body, want string }{
		{"whole", short, short},
		{"cut", system + `,{"role":"user","content":"First?"},{"role":"user","content":"How?"}` + quoting, only + `"How?"}]}`},
		{"in parts", system + `,{"role":"user","content":[{"type":"text","text":"How?"}]}` + quoting, only + `[{"type":"text","text":"How?"}]}]}`},
		{"the question itself is cut", `{"messages":[{"role":"user","content":"` + long + `"}]}`, ""},
		{"none of a user", system + quoting, ""},
	} {
		e, whole := keep(t, explain.BodiesFull, c.body)
		got := AskAgain(e, whole)
		if string(got.JSON) != c.want || got.Bytes != len(c.body) || got.LastOnly != (len(c.body) > 64<<10) {
			t.Errorf("%s: %s, %d bytes, %v", c.name, got.JSON, got.Bytes, got.LastOnly)
		}
	}
	for _, bodies := range []explain.Bodies{explain.BodiesOff, explain.BodiesRedacted} {
		if got := AskAgain(keep(t, bodies, short)); got.JSON != nil || got.LastOnly || got.Bytes != 0 {
			t.Errorf("%s: %s", bodies, got.JSON)
		}
	}
}

// An entered question becomes one message, whatever it contains.
func TestQuestion(t *testing.T) {
	e, _ := keep(t, explain.BodiesOff, "{}")
	if got := string(AskedQuestion(e, `a "b"`)); got != `{"model":"gpt-\"5\"","messages":[{"role":"user","content":"a \"b\""}]}` {
		t.Error(got)
	}
	e.Ledger = nil
	if got := string(AskedQuestion(e, "a")); got != `{"messages":[{"role":"user","content":"a"}]}` {
		t.Error(got)
	}
}

// No end of a body takes long to search.
func TestHostileEnds(t *testing.T) {
	for _, piece := range []string{"{", `{"a":`, `[{"a":[`, `{"role":"user",`, `{"content":"`} {
		body := strings.Repeat(piece, (200<<10)/len(piece))
		e, whole := keep(t, explain.BodiesFull, body)
		start := time.Now()
		if got := AskAgain(e, whole); got.JSON != nil {
			t.Errorf("%s: %s", piece, got.JSON)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s: %v", piece, took)
		}
	}
}
