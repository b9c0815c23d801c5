package main

import (
	"fmt"
	"testing"
)

// A base's relevance_threshold also applies to a search on the admin port, with and without a
// tenant.
func TestRelevanceThreshold(t *testing.T) {
	docs := handbook(t)
	for threshold, want := range map[string]string{"auto": `"data":[{`, "0.99": `"data":[]`} {
		config := written(t, "sidenote.yaml", fmt.Sprintf("upstream: {base_url: %q}\nknowledge: {docs: {path: %q, relevance_threshold: %s}}\n",
			newRecorder(t).URL, docs, threshold))
		p := serve(t, "--config", config, "--state", ":memory:")
		p.readyz(t, `{"status":"ready"}`)
		for _, path := range []string{"/v1/search", "/v1/search?tenant=default"} {
			p.asks(t, "POST", path, `{"query":"parental leave"}`, 200, want, `leave.md`)
		}
	}
}
