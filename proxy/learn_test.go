package proxy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval/services"
	"sidenote/rewrite/model"
)

// sendSampled sends the same request n times to an upstream with this answer, and returns what was
// learnt when all samples have been read. Each answer must be relayed unchanged.
func sendSampled(t *testing.T, n int, request, head, answer string) (*rig, []model.CalibrationEntry) {
	t.Helper()
	u := newUpstream(t, func(_ seen, w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(answer), answer)
	})
	g := open(t, u, nil)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range n {
		if _, body := g.post(t, request, "Connection: close"); body != answer {
			t.Fatalf("the client got %q of %q", body, answer)
		}
		for g.reports.next(t); proxy.Learning(g.server); { // without this the next sample may be shed
			<-tick.C
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := g.server.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	return g, g.calibration.All()
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const okJSON = "200 OK\r\nContent-Type: application/json"

// For a sample of requests, the number of prompt tokens in the answer, in any form, is compared
// with the count of the request as it was sent.
func TestLearnsWhatIsBilled(t *testing.T) {
	const usage = `{"object":"chat.completion","usage":{"prompt_tokens":1500,"completion_tokens":3}}`
	const events = "data: {\"choices\":[],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1500}}\n\ndata: [DONE]\n\n"
	for name, c := range map[string]struct{ head, answer string }{
		"JSON":   {okJSON, usage},
		"stream": {"200 OK\r\nContent-Type: text/event-stream", events},
		"gzip":   {okJSON + "\r\nContent-Encoding: gzip", gzipped(t, usage)},
	} {
		t.Run(name, func(t *testing.T) {
			g, all := sendSampled(t, 40, chatBody, c.head, c.answer)
			// The first 32 requests are sampled, then one in 16.
			if len(all) != 1 || all[0].Samples != 32 {
				t.Fatalf("%+v, %v shed", all, reporttest.Count(t, g.metrics, "sidenote_shed_total", "calibration"))
			}
			k := model.CalibrationKey{Tenant: "acme", Upstream: "stub", Row: "test", Name: "m"}
			if e := all[0]; e.CalibrationKey != k || e.Value.Ratio <= 1 || e.Value.Offset <= 0 {
				t.Errorf("learnt %+v", e)
			}
		})
	}
}

// Where an upstream counts tokens, its counts of the requests as sent are learnt from, not its bills.
// If it cannot, the bills are.
func TestLearnsFromCounts(t *testing.T) {
	const answer = `{"type":"message","content":[],"usage":{"input_tokens":900,"output_tokens":3}}`
	learnt := map[int]float64{}
	for _, counted := range []int{1500, 0} {
		u := newUpstream(t, func(_ seen, w io.Writer) {
			fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", okJSON, len(answer), answer)
		})
		counter := &countingUpstream{tokens: counted}
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}}, Tenants: tenant.Tenants{Unknown: policyOf("acme", nil)},
			Planners: &proxy.Planners{Counters: map[string]proxy.CountUpstream{"stub": {API: counter}}},
		}, nil)
		sent := ""
		for range 10 { // from eight samples on, something is learnt
			resp := g.raw(t, strings.Replace(strings.Replace(chatRequest(chatBody), "/v1/chat/completions", "/v1/messages?beta=true", 1), "\r\n", "\r\nX-Api-Key: theirs\r\n", 1))
			if got, err := io.ReadAll(resp.Body); string(got) != answer || err != nil {
				t.Fatalf("%s, %v", got, err)
			}
			sent = (<-u.seen).body
			for g.reports.next(t); proxy.Learning(g.server); { // without this the next sample may be shed
				runtime.Gosched()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := g.server.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		if counter.body != sent || !strings.HasSuffix(counter.to.Path, "/v1/messages?beta=true") || counter.to.Header.Get("X-Api-Key") != "theirs" {
			t.Errorf("asked %+v of %s", counter.to, counter.body)
		}
		all := g.calibration.All()
		if len(all) != 1 || all[0].Samples != 10 {
			t.Fatalf("learnt %+v", all)
		}
		learnt[counted] = all[0].Value.Ratio
	}
	if got := learnt[1500] / learnt[0]; math.Abs(got-1500./900) > .01 {
		t.Errorf("learnt %v", learnt)
	}
}

// A countingUpstream counts the tokens of requests; 0 is an error.
type countingUpstream struct {
	tokens int
	to     services.LLMCall
	body   string
}

func (c *countingUpstream) CountTokens(_ context.Context, to services.LLMCall, body []byte) (int, error) {
	c.to, c.body = to, string(body)
	if c.tokens == 0 {
		return 0, errors.New("unknown route")
	}
	return c.tokens, nil
}

// An impossible usage is ignored and counted; one that is not about text is ignored. (U14; the
// fuzz test is in proxy/answer.)
func usageLies(t *testing.T) {
	usage := func(n string) string { return `{"usage":{"prompt_tokens":` + n + `}}` }
	image := strings.Replace(chatBody, `"content":`, `"content":[{"type":"image_url","image_url":{"url":"https://x"}}],"x":`, 1)
	for _, c := range []struct{ head, request, answer, reason string }{
		{okJSON, chatBody, usage("-1"), "negative"},
		{okJSON, chatBody, usage("1e18"), "not-a-number"},
		{okJSON, chatBody, usage("1000000000000000000"), "too-large"},
		{okJSON, chatBody, usage(`"12"`), "not-a-number"},
		{okJSON, chatBody, usage("90000000"), "absurd"},
		{okJSON + "\r\nContent-Encoding: gzip", chatBody, usage("12"), "undecodable"},
		{okJSON, chatBody, `{}`, ""},
		{okJSON, image, usage("1500"), ""},
		{"500 Oh\r\nContent-Type: application/json", chatBody, usage("-1"), ""},
	} {
		g, all := sendSampled(t, 1, c.request, c.head, c.answer)
		if len(all) > 0 {
			t.Errorf("%s: learnt %+v", c.answer, all)
		}
		for _, reason := range []string{"negative", "too-large", "not-a-number", "absurd", "undecodable"} {
			want := 0.0
			if reason == c.reason {
				want = 1
			}
			if got := reporttest.Count(t, g.metrics, "sidenote_usage_ignored_total", reason); got != want {
				t.Errorf("%s: %v ignored as %s, want %v", c.answer, got, reason, want)
			}
		}
	}
}

// Sidenote-Status lists the token counts of a counted request.
func TestStatusOfCountedRequest(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, func(p *tenant.Policy) { p.Rewrite.CountWhole = true })
	resp, _ := g.post(t, chatBody)
	status := resp.Header.Get(report.HeaderStatus)
	if !strings.Contains(status, "; window=1048576; request=") || !strings.Contains(status, "; messages=") || !strings.HasSuffix(status, "; reserved-output=4096") {
		t.Errorf("status %s", status)
	}
	if r := g.reports.next(t); r.Rewrite.Ledger.Window.Check != model.CheckCount {
		t.Errorf("%+v", r.Rewrite.Ledger.Window)
	}
}

// If an upstream silently truncates prompts, one warning with the remedy is logged; the window
// that it serves is shown as a metric and used from then on.
func TestServedWindowIsUsed(t *testing.T) {
	long := strings.Repeat("All parents may take ten weeks of leave, and more if the office agrees. ", 400)
	request := fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":"How long is parental leave?"}]}`, long)
	g, all := sendSampled(t, 6, request, okJSON, `{"object":"chat.completion","usage":{"prompt_tokens":2048,"completion_tokens":3}}`)
	if len(all) != 1 || g.calibration.Window(all[0].CalibrationKey) != 2048 {
		t.Fatalf("learnt %+v", all)
	}
	families, err := g.metrics.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := 0.0
	for _, f := range families {
		if f.GetName() == "sidenote_model_served_window_tokens" {
			shown = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	if shown != 2048 {
		t.Errorf("the metric is %v", shown)
	}
	log := g.log.take()
	if n := strings.Count(log, "truncates prompts"); n != 1 {
		t.Errorf("%d warnings in %s", n, log)
	}
	for _, part := range []string{`upstream stub`, `OLLAMA_CONTEXT_LENGTH`, `num_ctx`, `window: 2048`, `level=WARN`} {
		if !strings.Contains(log, part) {
			t.Errorf("the log lacks %q: %s", part, log)
		}
	}
}
