package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
)

// A caller that the upstream refuses learns nothing about the sources: an answer other than 2xx
// has only the id of the request.
func TestOnlySuccessTellsOfSources(t *testing.T) {
	for _, status := range []string{"200 OK", "201 Made", "299 Odd", "304 Same", "307 Elsewhere", "400 No", "401 Unauthorized", "403 No", "404 No", "429 Slow Down", "500 Oh", "503 Busy", "529 Full"} {
		u := newUpstream(t, func(_ seen, w io.Writer) {
			fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Type: text/event-stream\r\nSidenote-Status: injected; sources=9\r\nSidenote-Sources: \"9\"\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\nSidenote-Sources: \"9\"\r\n\r\n", status)
		})
		g := open(t, u, nil)
		resp, body := g.post(t, chatBody, "Authorization: Bearer sk-wrong")
		r := g.reports.next(t)
		if resp.Status != status || r.Sources() != 1 && r.Refused == 0 || body != "no" && resp.StatusCode != 304 {
			t.Fatalf("%s: %s %q, %d sources", status, resp.Status, body, r.Sources())
		}
		if id := resp.Header.Get(report.HeaderID); id != r.ID {
			t.Errorf("%s: the id is %q", status, id)
		}
		success := strings.HasPrefix(status, "2")
		sources, says := resp.Header.Get(report.HeaderSources), resp.Header.Get(report.HeaderStatus)
		if strings.HasPrefix(sources, `"1";kb="kb-acme"`) != success || strings.HasPrefix(says, "injected; sources=1; ") != success {
			t.Errorf("%s: %s; %s", status, sources, says)
		}
		if all := fmt.Sprint(resp.Header, resp.Trailer); !success && (strings.Contains(all, "acme") || strings.Contains(strings.ToLower(all), "sources")) {
			t.Errorf("%s: %s", status, all)
		}
	}
}

// The same applies to Sidenote's own errors, whatever was tried before.
func TestOurErrorsTellNothingOfSources(t *testing.T) {
	const tooLong = `{"error":{"message":"This model's maximum context length is 100000 tokens. However, your messages resulted in 100400 tokens."}}`
	var asked atomic.Int32
	u := newUpstream(t, func(_ seen, w io.Writer) {
		if asked.Add(1) > 1 { // the retry gets no answer
			w.(io.Closer).Close()
			return
		}
		fmt.Fprintf(w, "HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n%s", len(tooLong), tooLong)
	})
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) { p.RetryTooLong = true })},
	}, retrieval.Func(fiveSources))
	resp, body := g.post(t, chatBody)
	if r := g.reports.next(t); !r.Retried() || r.Outcome != report.Failed || resp.StatusCode != 502 {
		t.Fatalf("retried %v, %s, %d %s", r.Retried(), r.Outcome, resp.StatusCode, body)
	}
	if got := resp.Header.Get(report.HeaderStatus); got != "failed; reason=upstream-broken" || resp.Header.Get(report.HeaderSources) != "" {
		t.Errorf("it says %s, %s", got, resp.Header.Get(report.HeaderSources))
	}
}
