package main

import (
	"fmt"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy/tenant"
)

// Helpers warns of planner, reranker and embedding settings that are probably mistakes.
func helperWarnings(cfg *config.Config) strictyaml.Problems {
	return slices.Concat(idlePlanners(cfg), keylessHelpers(cfg), thresholdsOfWords(cfg))
}

// policyProblem returns a problem of a setting in a tenant's policy.
func policyProblem(cfg *config.Config, p *tenant.Policy, setting, format string, args ...any) strictyaml.Problem {
	key := "policies." + p.Name + "." + setting
	return strictyaml.Problem{Place: cfg.Place(key), Key: key, Reason: fmt.Sprintf(format, args...)}
}

// once removes duplicates, as several tenants may have one policy.
func distinctProblems(list strictyaml.Problems) strictyaml.Problems {
	var different strictyaml.Problems
	for _, one := range list {
		if !slices.Contains(different, one) {
			different = append(different, one)
		}
	}
	return different
}

// idlePlanners lists planners that may add no query.
func idlePlanners(cfg *config.Config) (list strictyaml.Problems) {
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		if p.Rewrite.Planner.MaxQueries != 1 {
			continue
		}
		use := "so that the planner is asked for nothing"
		if p.Rewrite.Planning("", nil).MaySkip {
			use = "so that the planner can only say that nothing need be searched"
		}
		list = append(list, policyProblem(cfg, &p, "planner.max_queries", "1 is the question itself, %s; 2 or more add queries", use))
	}
	return distinctProblems(list)
}

// keylessHelpers lists named upstreams of helpers on other machines that would be called without a
// key.
func keylessHelpers(cfg *config.Config) (list strictyaml.Problems) {
	upstreams := config.ProxyUpstreams(cfg)
	keyless := func(name string) bool {
		u, ok := upstreams[name]
		return ok && !anyKey(cfg, name) && len(u.Dial.Certificates) == 0 && u.Dial.Socket == "" && !config.Loopback(u.BaseURL.Hostname())
	}
	const reason = "upstream %s has no api_key and is not on this machine, so it is asked without a key; callers' keys never go there"
	if name := string(cfg.Embeddings.Upstream.Name); name != "" && len(config.QuestionsEmbedded(cfg)) > 0 && keyless(name) {
		key := "embeddings.upstream"
		list = append(list, strictyaml.Problem{Place: cfg.Place(key), Key: key, Reason: fmt.Sprintf(reason, name)})
	}
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		if s := p.Rewrite.Planner; s.MaxQueries > 0 && s.Upstream != "" && keyless(s.Upstream) {
			list = append(list, policyProblem(cfg, &p, "planner.upstream", reason, s.Upstream))
		}
		for i, s := range p.Stages.Stages {
			if s.Upstream != "" && keyless(s.Upstream) {
				list = append(list, policyProblem(cfg, &p, fmt.Sprintf("stages.chain[%d].upstream", i), reason, s.Upstream))
			}
		}
		if s := p.Rewrite.Rerank; s.Documents > 0 && keyless(s.Upstream) {
			list = append(list, policyProblem(cfg, &p, "rerank.upstream", reason, s.Upstream))
		}
	}
	return distinctProblems(list)
}

// mostFused is a score that combined word and vector scores hardly reach: of a hundred candidates
// none scores more than 2.2, and nearly all less than 1.
const mostFused = 1.5

// thresholdsOfWords lists thresholds that only suit word scores, in policies with embedded bases.
func thresholdsOfWords(cfg *config.Config) (list strictyaml.Problems) {
	embedded := config.Texts(config.QuestionsEmbedded(cfg))
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		least := p.Rewrite.Search.ScoreThreshold
		with := slices.DeleteFunc(slices.Clone(p.Rewrite.Knowledge), func(id string) bool { return !slices.Contains(embedded, id) })
		if least > mostFused && len(with) > 0 {
			list = append(list, policyProblem(cfg, &p, "retrieval.score_threshold",
				"%g is compared with scores of words and vectors together, which are 1 or so, since %s is embedded; one that was made for words alone lets nothing pass",
				least, strings.Join(with, ", ")))
		}
	}
	return distinctProblems(list)
}
