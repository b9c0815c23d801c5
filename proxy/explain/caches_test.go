package explain_test

import (
	"encoding/json"
	"testing"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// Each cache lookup is listed; caches that were not asked, and stages that may not be cached, are
// not.
func TestCaches(t *testing.T) {
	r := explain.New(2, explain.BodiesOff)
	of := injected("a")
	res := &of.Rewrite
	res.Retrieval.Cache, res.Retrieval.CacheKey, res.FitCached = retrieval.CacheMiss, 0x1a, true
	res.Retrieval.Lookups = []retrieval.Lookup{{Knowledge: "hr", Others: 2, State: retrieval.CacheHit, Key: 0xabcdef12}, {Knowledge: "it", Query: 1, State: retrieval.CacheMiss, Key: 1}}
	res.Ledger.Planned = &retrieval.Planned{Fallback: retrieval.PlanOK, Cached: true}
	res.Ledger.Reranked = &retrieval.Reranked{Documents: 3, Reason: retrieval.RerankTimeout}
	res.Ledger.Graded = &retrieval.Graded{Documents: 3, Reason: retrieval.RerankOK, Cached: true}
	of.Tools = &report.Tools{Restored: 1}
	of.Stages = &report.Stages{Called: []report.Stage{{Name: "draft", Outcome: report.StageOK}, {Name: "check", Calls: 1, Outcome: report.StageOK}, {Name: "end", Outcome: report.StageBudget}}}
	r.Record(of)
	got, err := json.Marshal(find(t, r, "a").Caches)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"cache":"plans","state":"hit"},{"cache":"selected","state":"miss","key":"0000001a"},{"cache":"candidates","of":"hr","more":2,"state":"hit","key":"abcdef12"},` +
		`{"cache":"candidates","of":"it","query":1,"state":"miss","key":"00000001"},{"cache":"scores","of":"rerank","state":"miss"},{"cache":"scores","of":"grade","state":"hit"},` +
		`{"cache":"fit","state":"hit"},{"cache":"turns","state":"hit"},{"cache":"outputs","of":"draft","state":"hit"}]`
	if string(got) != want {
		t.Errorf("%s", got)
	}
	none := injected("b")
	none.Rewrite.Retrieval = retrieval.Result{Cache: retrieval.CacheOff}
	none.Rewrite.Ledger = rewrite.Ledger{Edits: []rewrite.Edit{}, Reranked: &retrieval.Reranked{Reason: retrieval.RerankOK}, Planned: &retrieval.Planned{Fallback: retrieval.PlanDisabled}}
	r.Record(none)
	if got := find(t, r, "b").Caches; got != nil {
		t.Errorf("none was asked: %v", got)
	}
}
