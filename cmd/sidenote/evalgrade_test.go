package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
)

// A policy that grades is evaluated as its requests are served: sources that its grader finds
// irrelevant do not count as injected, its tokens are counted, and the ranking stays. Questions for
// which it fails are counted.
func TestEvalGraded(t *testing.T) {
	o := newOracle(t)
	data := gardens(t)
	out := t.TempDir()
	config := written(t, "c.yaml", fmt.Sprintf(`upstreams:
  default: {base_url: %s}
  oracle: {base_url: %s, api_key: {env: SERVICE_KEY}}
policies:
  default: {upstream: default, retrieval: {num_candidates: 20, score_threshold: 0.01}}
  graded: {extends: default, grade: {by: llm, upstream: oracle, model: m}}
`, o.URL, o.URL))
	write(t, out, "off.txt", "number9 filler\n")
	evaluate := func(policy string, code int, said string) (answer struct {
		OffTopic struct{ Injected float64 } `json:"off_topic"`
		NDCG     float64                    `json:"ndcg_at_10"`
		Tokens   map[string]int
	}) {
		t.Helper()
		c := start(t, keyed, "eval", "--data", data, "--config", config, "--policy", policy, "--off-topic", filepath.Join(out, "off.txt"), "--json")
		c.ends(t, code, `"ndcg_at_10"`, said)
		must(t, json.Unmarshal(c.out.Bytes(), &answer))
		return answer
	}
	bare := evaluate("default", exitDone, "")
	if bare.OffTopic.Injected != 1 || o.asked.Load() > 0 {
		t.Fatalf("without a grader: %+v, asked for %d", bare, o.asked.Load())
	}
	graded := evaluate("graded", exitDone, "")
	if graded.OffTopic.Injected != 0 || graded.NDCG != bare.NDCG || graded.Tokens["grade"] < 3*320 || o.asked.Load() == 0 {
		t.Errorf("%+v, asked for %d", graded, o.asked.Load())
	}
	one := "gate"
	o.fails.Store(&one)
	if got := evaluate("graded", exitPart, "partly done: 1 query was answered without grades (error)"); got.NDCG != bare.NDCG {
		t.Errorf("%+v", got)
	}
}
