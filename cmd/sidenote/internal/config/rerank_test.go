package config_test

import (
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
)

// A reranker is off until an upstream is named; its settings are inherited and overridden like
// others, and its timeout is part of WorstRetrieval.
func TestRerank(t *testing.T) {
	const more = "upstreams: {tei: http://127.0.0.1:1}\n"
	on := retrieval.RerankSettings{Upstream: "tei", Address: "http://127.0.0.1:1", Dialect: "tei", Documents: 50, Timeout: 2 * time.Second}
	cohere := on
	cohere.Dialect, cohere.Model, cohere.Threshold, cohere.Documents, cohere.Timeout = "cohere", "m", 0.5, 20, time.Second
	for file, want := range map[string]retrieval.RerankSettings{
		"policies: {default: {mode: inject}}":                          {},
		"policies: {default: {rerank: off}}":                           {},
		"policies: {default: {rerank: {upstream: tei, dialect: tei}}}": on,
		"policies: {default: {rerank: {upstream: tei, model: m, score_threshold: 0.5, num_candidates: 20, timeout: 1s}}}": cohere,
		"policies: {base: {rerank: {upstream: tei, dialect: tei}}, default: {extends: base, rerank: {timeout: 2s}}}":      on,
		"policies: {base: {rerank: {upstream: tei, dialect: tei}}, default: {extends: base, rerank: off}}":                {},
	} {
		c, err := config.Load(disk{"c.yaml": up + more + file}.source("c.yaml"))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		p, _ := c.Tenant("default")
		if got := p.Rewrite.Rerank; got != want {
			t.Errorf("%s: %+v, want %+v", file, got, want)
		}
		if wait := 300*time.Millisecond + want.Timeout; c.WorstRetrieval() != wait {
			t.Errorf("%s: waits for %v, want %v", file, c.WorstRetrieval(), wait)
		}
		if asked := config.RerankServices(c); len(asked) > 0 != (want.Documents > 0) || c.OnlyForKnowledge("tei") != (want.Documents > 0) {
			t.Errorf("%s: asks %v, only for knowledge: %v", file, asked, c.OnlyForKnowledge("tei"))
		}
	}
}

// Reranker settings without a reranker change neither the resolved policy nor its hash; another
// address does.
func TestRerankOffIsAsBefore(t *testing.T) {
	hash := func(file string) string {
		t.Helper()
		c, err := config.Load(disk{"c.yaml": up + file}.source("c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		p, _ := c.Tenant("default")
		return p.Hash
	}
	if a, b := hash("policies: {default: {mode: inject}}"), hash("policies: {default: {rerank: {upstream: off, timeout: 1s}}}"); a != b {
		t.Errorf("hashes %s and %s", a, b)
	}
	const on = "policies: {default: {upstream: default, rerank: {upstream: s, model: m}}}"
	if a, b := hash("upstreams: {s: http://a.test}\n"+on), hash("upstreams: {s: http://b.test}\n"+on); a == b {
		t.Error("another reranker changes no hash")
	}
}

// A reranker that cannot be called is refused at its position.
func TestRerankRefused(t *testing.T) {
	for file, want := range map[string]string{
		"policies: {default: {rerank: {timeout: 1s}}}":                                                   "c.yaml:2:22: policies.default.rerank.upstream: is missing; name the upstream that reranks",
		"policies: {default: {rerank: {upstream: defualt, model: m}}}":                                   `c.yaml:2:31: policies.default.rerank.upstream: no upstream is named "defualt"`,
		"policies: {default: {rerank: {upstream: default}}}":                                             `policies.default.rerank.model: is missing; name the model of upstream "default" that reranks`,
		"policies: {default: {rerank: {upstream: default, model: m, dialect: voyage}}}":                  "policies.default.rerank.dialect",
		"policies: {default: {rerank: {upstream: default, model: m, dialect: llm, num_candidates: 51}}}": "policies.default.rerank.num_candidates: 51 is more than a chat model is asked to score, 50",
		"policies: {default: {rerank: {upstream: default, model: m, timeout: 6s}}}":                      "policies.default.rerank.timeout: 6s is out of range",
		"policies: {default: {rerank: {upstream: default, model: m, score_threshold: -1}}}":              "policies.default.rerank.score_threshold",
		"policies: {default: {rerank: {upstream: default, model: m, top_n: 1}}}":                         "policies.default.rerank.top_n: unknown key",
		"policies: {default: {overrides: [{models: [a], rerank: {timeout: 1s}}]}}":                       "policies.default.overrides[0].rerank.upstream: is missing",
	} {
		_, err := config.Load(disk{"c.yaml": up + file}.source("c.yaml"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", file, err, want)
		}
	}
}
