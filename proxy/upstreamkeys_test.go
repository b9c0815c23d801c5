package proxy_test

import (
	"net/url"
	"strings"
	"testing"

	"sidenote/proxy"
)

// The key for an upstream is sent in the header that the upstream or its vendor takes, and all other headers that
// may hold a credential of the client are removed.
func TestUpstreamKeyHeaders(t *testing.T) {
	for upstream, want := range map[string]string{
		"https://api.openai.com/v1":       "Authorization=Bearer sk-up",
		"https://api.anthropic.com/v1":    "X-Api-Key=sk-up",
		"https://API.Anthropic.com":       "X-Api-Key=sk-up",
		"https://anthropic.com.proxy.lan": "Authorization=Bearer sk-up",
		"https://a.openai.azure.com":      "Api-Key=sk-up",
		"http://localhost:8000/anthropic": "Authorization=Bearer sk-up",

		"http://localhost:8000 x-api-key":         "X-Api-Key=sk-up",
		"http://localhost:8000 api-key":           "Api-Key=sk-up",
		"https://api.anthropic.com authorization": "Authorization=Bearer sk-up",
	} {
		base, header, _ := strings.Cut(upstream, " ")
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		sent, removed := "", map[string]bool{}
		for _, h := range proxy.KeyHeaders(proxy.Upstream{BaseURL: u, APIKey: proxy.NewSecret("sk-up"), KeyHeader: header}) {
			if h.Value != "" {
				sent += h.Name + "=" + h.Value
			} else {
				removed[h.Name] = true
			}
		}
		if sent != want || len(removed) != 3 || !removed["Cookie"] {
			t.Errorf("%s: sent %s, removed %v", upstream, sent, removed)
		}
		if lines := proxy.KeyHeaders(proxy.Upstream{BaseURL: u, KeyHeader: header}); lines != nil {
			t.Errorf("%s: without a key: %v", upstream, lines)
		}
	}
}
