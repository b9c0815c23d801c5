package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/rewrite"
)

// The admin port of a running Sidenote summarizes the requests of the last hour, and lists the
// questions that found nothing.
func TestOverviewOfARunningSidenote(t *testing.T) {
	up := httptest.NewServer(&demo.Stub{})
	t.Cleanup(up.Close)
	dir := writeFiles(t, map[string][]byte{"c.yaml": fmt.Appendf(nil, "upstream: %s/v1\nknowledge: {docs: %q}\nexplain: {bodies: full}\n", up.URL, handbook(t))})
	p := serve(t, "--config", filepath.Join(dir, "c.yaml"), "--state", ":memory:")
	found := fmt.Sprintf(leaveChat, "")
	missed := strings.Replace(found, "How many weeks of parental leave are there?", "Which submarine engines corrode?", 1)
	for _, question := range []string{found, found, missed} {
		chatWith(t, p, question)
	}
	var v explain.Overview
	for begin := time.Now(); v.Requests < 3 && time.Since(begin) < time.Minute; { // a request is counted a moment after its answer has come
		_, text := get(t, p.admin+admin.OverviewPath)
		v = explain.Overview{}
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	if v.Outcomes[0] != (explain.OutcomeCount{Outcome: rewrite.Injected, Requests: 2}) || v.Cache.Hits != 1 || v.Cache.Lookups != 3 || v.Overhead.P50 <= 0 {
		t.Errorf("%+v", v)
	}
	if len(v.Documents) != 1 || v.Documents[0].ID != "leave.md" || v.Documents[0].Knowledge != "docs" || v.Documents[0].Given != 2 {
		t.Errorf("documents %+v", v.Documents)
	}
	if len(v.Questions) != 1 || v.NoMatch != 1 || v.Questions[0].Text != "Which submarine engines corrode?" || fmt.Sprint(v.Questions[0].Knowledge) != "[docs]" {
		t.Errorf("questions %+v", v.Questions)
	}
}
