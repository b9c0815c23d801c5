package admin_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// Callers who may read get the explanation of a request, or are told that it is not kept.
func TestExplain(t *testing.T) {
	ring := explain.New(20, explain.BodiesFull)
	report := &report.Report{ID: "01M7Y9S0G540QS2PPDJ5EB1HAP", Tenant: "acme", Outcome: rewrite.Untouched, Reason: rewrite.ReasonNoMatch}
	ring.Received(report, []byte(chatBody))
	ring.Record(report)
	url := listen(t, admin.NewServer(handler(func(h *admin.Handler) {
		h.Explain, h.Token, h.ReadToken = ring, proxy.NewSecret("t0ken"), proxy.NewSecret("readt0ken")
	}).Handle, slog.New(slog.DiscardHandler))) + "/v1/explain/"

	for _, token := range []string{"t0ken", "readt0ken"} {
		code, body := call(t, "GET", url+report.ID, "", "Authorization: Bearer "+token)
		var e explain.Explanation
		if err := json.Unmarshal([]byte(body), &e); err != nil || code != 200 || e.ID != report.ID || e.Tenant != "acme" || e.Reason != "no-match" || e.Received.Text != chatBody {
			t.Errorf("with %s: %d %s, %v", token, code, body, err)
		}
	}
	for _, c := range []struct {
		method, id, line string
		code             int
		says             string
	}{
		{"GET", "nobody", "Authorization: Bearer t0ken", 404, `{"error":{"message":"Request \"nobody\" is not recorded, or not yet; of the last 20 requests (explain.keep), 1 are kept.","type":"invalid_request_error","param":null,"code":"not_found"}}`},
		{"GET", strings.Repeat("x", 1000), "Authorization: Bearer t0ken", 404, `Request \"` + strings.Repeat("x", 64) + `\" is not`},
		{"GET", "", "Authorization: Bearer t0ken", 404, "There is nothing at /v1/explain/."},
		{"POST", report.ID, "Authorization: Bearer t0ken", 405, "takes GET"},
		{"GET", report.ID, "Authorization: Bearer guess", 401, "admin token"},
		{"GET", report.ID, "X: y", 401, "admin token"},
		{"GET", report.ID, "Origin: https://elsewhere.test", 403, "may not call"},
	} {
		if code, body := call(t, c.method, url+c.id, "", c.line); code != c.code || !strings.Contains(body, c.says) || strings.Contains(body, "acme") {
			t.Errorf("%s %.10s, %s: %d %s", c.method, c.id, c.line, code, body)
		}
	}

	url = listen(t, admin.NewServer(handler(nil).Handle, slog.New(slog.DiscardHandler))) + "/v1/explain/"
	if code, body := call(t, "GET", url+"a", ""); code != 404 || !strings.Contains(body, `Request \"a\" is not recorded: explain.keep is 0`) {
		t.Errorf("where none are kept: %d %s", code, body)
	}
}
