package rewrite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sidenote/rewrite"
	"sidenote/rewrite/goldentest"
)

// A policyOf is the content of policy.json.
type policyOf struct {
	Route  string
	Policy rewrite.MeterPolicy
	Prompt int64 // tokens
}

var routes = map[string]rewrite.MeteredRoute{
	"chat": rewrite.MeteredChat, "completions": rewrite.MeteredCompletions, "responses": rewrite.MeteredResponses, "embeddings": rewrite.MeteredEmbeddings, "other": rewrite.MeteredOther,
}

// A golden file holds policy.json, and requests, each with its result: the body sent to the
// upstream, its edits by name, whether usage is hidden, and the estimate; or the error.
func TestMeteredGolden(t *testing.T) {
	goldentest.Each(t, "testdata", func(t *testing.T, a *goldentest.Archive) {
		var p policyOf
		decoder := json.NewDecoder(bytes.NewReader(a.Get("policy.json")))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if _, ok := routes[p.Route]; !ok {
			t.Fatalf("no route %q", p.Route)
		}
		for _, f := range a.Files {
			if suffix, ok := strings.CutPrefix(f.Name, "request"); ok {
				a.Set("want"+suffix, result(f.Data, p))
			}
		}
	})
}

// result returns the part want of a request.
func result(data []byte, p policyOf) string {
	body := bytes.TrimSuffix(data, []byte("\n"))
	r, err := rewrite.ReadMetered(routes[p.Route], body)
	if err != nil {
		return fmt.Sprintf("refused: %v\n", err)
	}
	r.MeterPolicy = p.Policy
	edits := r.Edits()
	var names []string
	for _, e := range edits {
		names = append(names, e.Name)
	}
	return fmt.Sprintf("%s\nedits %q, hides usage %t, at most %+v\n", rewrite.ApplyEdits(nil, body, edits), names, r.HidesUsage(), r.Estimate(p.Prompt))
}
