package admin_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/rewrite"
)

// Callers who may read see the last hour, and questions only if texts are kept, with keys masked.
func TestOverview(t *testing.T) {
	for bodies, text := range map[explain.Bodies]string{
		explain.BodiesOff: "", explain.BodiesRedacted: "", explain.BodiesFull: "What does (a key) open?",
	} {
		ring, last := explain.New(20, bodies), explain.NewRecorder()
		r := &report.Report{ID: "01M7Y9S0G540QS2PPDJ5EB1HAP", Time: time.Now(), Tenant: "acme", Route: route.Chat, Outcome: rewrite.Untouched, Reason: rewrite.ReasonNoMatch}
		ring.Received(r, []byte(`{"model":"m","messages":[{"role":"user","content":"earlier"},{"role":"user","content":"What does sk-sidenote-1234 open?"}]}`))
		ring.Record(r)
		last.Record(r)
		url := listen(t, admin.NewServer(handler(func(h *admin.Handler) {
			h.Overview, h.Explain, h.Token, h.ReadToken = last, ring, proxy.NewSecret("t0ken"), proxy.NewSecret("readt0ken")
		}).Handle, slog.New(slog.DiscardHandler))) + "/v1/overview"
		code, body := call(t, "GET", url, "", "Authorization: Bearer readt0ken")
		var v explain.Overview
		if err := json.Unmarshal([]byte(body), &v); err != nil || code != 200 || v.Requests != 1 || v.NoMatch != 1 || len(v.Minutes) != 60 || len(v.Questions) != 1 {
			t.Fatalf("%s: %d %s, %v", bodies, code, body, err)
		}
		if q := v.Questions[0]; q.Text != text || q.ID != r.ID || q.Tenant != "acme" || v.Texts != (bodies == explain.BodiesFull) || strings.Contains(body, "sk-") {
			t.Errorf("%s: %+v", bodies, q)
		}
		if code, body := call(t, "GET", url, "", "Authorization: Bearer guess"); code != 401 || strings.Contains(body, "acme") {
			t.Errorf("without the token: %d %s", code, body)
		}
		if code, _ := call(t, "POST", url, "{}", "Authorization: Bearer t0ken"); code != 405 {
			t.Errorf("POST: %d", code)
		}
	}
	url := listen(t, admin.NewServer(handler(func(h *admin.Handler) { h.Overview = explain.NewRecorder() }).Handle, slog.New(slog.DiscardHandler)))
	if code, body := call(t, "GET", url+"/v1/overview", ""); code != 200 || !strings.Contains(body, `"texts":false`) && !strings.Contains(body, `"texts": false`) {
		t.Errorf("where no requests are kept: %d %s", code, body)
	}
}
