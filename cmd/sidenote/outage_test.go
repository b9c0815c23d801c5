package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// An upstream that cannot be reached is found without a request: /readyz stays 200 and names it, and
// a gauge is 0. Of two base URLs the second serves while the first refuses.
func TestUpstreamOutage(t *testing.T) {
	t.Parallel()
	up := newRecorder(t)
	refused := func() string {
		address, err := freeAddress() // which nobody gets meanwhile
		must(t, err)
		return "http://" + address
	}
	first, gone := refused(), refused()
	conf := written(t, "c.yaml", `
upstreams:
  two:
    base_url:
      - `+first+`
      - `+up.URL+`
  gone: `+gone+`
policies: {default: {upstream: two}, other: {upstream: gone}}
telemetry: {tenants: {top: 1}, native_histograms: true}
identity: {unknown: acme}
tenants:
  acme: {keys: [{sha256: `+strings.Repeat("ab", 32)+`, name: app, expires: 2127-01-31}]}
  beta: {policy: other, keys: [{sha256: `+strings.Repeat("cd", 32)+`}]}
`)
	p := serve(t, "--config", conf, "--state", t.TempDir())
	p.readyz(t, "upstream two: "+first+" cannot be reached since ")
	said := p.readyz(t, "upstream gone: "+gone+" cannot be reached since ")
	if !strings.Contains(said, `"status":"degraded"`) || !strings.Contains(said, "; requests fail until it can") ||
		!strings.Contains(said, "upstream two: "+first+" cannot be reached since ") || !strings.Contains(said, "; "+up.URL+" is used") {
		t.Errorf("%s", said)
	}
	if s := p.chats(t); !strings.HasPrefix(s, "untouched") {
		t.Errorf("%s", s)
	}
	_, body := get(t, p.admin+"/metrics")
	for _, line := range []string{`sidenote_upstream_up{upstream="gone"} 0`, `sidenote_upstream_up{upstream="two"} 1`, `sidenote_expiry_seconds{kind="key",name="acme/app"} `} {
		if !strings.Contains(body, line) {
			t.Errorf("no %s", line)
		}
	}
	if strings.Contains(body, `tenant="beta"`) {
		t.Error("beta has series, and only one tenant may")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	open, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(string(open), "# EOF\n") {
		t.Errorf("%v, %v, %s", err, resp.Header, fmt.Sprintf("%.100s", open))
	}
}
