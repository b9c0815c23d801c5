// Package review reports on a configuration that has been loaded: a summary, what a tenant gets,
// probable mistakes, and all of it as JSON.
package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sidenote/cache/budget"
	"sidenote/cache/redis"
	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// printTenant prints what a tenant's requests get, including inherited settings, and where each value
// was set.
func printTenant(w io.Writer, cfg *config.Config, name config.Name) {
	p, _ := cfg.Tenant(name)
	fmt.Fprintf(w, "# tenant %s, policy %s, hash %s\n", name, p.Name, p.Hash)
	for i, o := range p.Overrides {
		fmt.Fprintf(w, "# overrides[%d], hash %s\n", i, o.Policy.Hash)
	}
	if e := p.Experiment; e != nil {
		fmt.Fprintf(w, "# experiment %s: %g%% of requests, by %s, get policy %s, hash %s\n", e.Name, 100*e.Share, e.Unit, e.PolicyB, e.B.Hash)
	}
	fmt.Fprintf(w, "# upstream %s\n%s", upstreamText(cfg, p.Upstream), config.OriginYAML(config.PolicyOrigins(cfg, name)))
}

// upstream describes an upstream without its secret.
func upstreamText(cfg *config.Config, name string) string {
	u := cfg.Proxy().Upstreams[name]
	text := fmt.Sprintf("%s → %s", name, u.BaseURL)
	for _, other := range u.Others {
		text += fmt.Sprintf(", then %s", other.BaseURL)
	}
	if u.Dial.Proxy != nil {
		text += fmt.Sprintf(" by proxy %s", u.Dial.Proxy)
	}
	switch {
	case anyKey(cfg, name):
		text += " (api_key ***)"
	case upstreamHasKey(cfg, name):
		text += " (no api_key: requests are sent without one; Sidenote keys are never forwarded)"
	}
	return text
}

// hasKey reports whether an upstream has an API key of its own.
func anyKey(cfg *config.Config, upstream string) bool {
	secret := cfg.Upstreams[config.Name(upstream)].APIKey
	if upstream == "default" && cfg.Upstream.BaseURL.URL != nil {
		secret = cfg.Upstream.APIKey
	}
	return secret.Shown() != ""
}

// keyed reports whether requests with Sidenote keys go to an upstream.
func upstreamHasKey(cfg *config.Config, upstream string) bool {
	return slices.ContainsFunc(cfg.Proxy().Tenants.Keys, func(k tenant.Key) bool { return k.Policy.Upstream == upstream })
}

// printSummary prints a summary of a valid configuration.
func printSummary(w io.Writer, cfg *config.Config) {
	fmt.Fprintln(w, "ok")
	fmt.Fprintf(w, "listen     %s, admin %s, telemetry %s\n", cfg.Listen, cfg.Admin.Listen, cfg.Telemetry.Listen)
	for _, t := range tokenReports(cfg) {
		fmt.Fprintf(w, "token      %s\n", t)
	}
	if cfg.MCP.Listen != config.Off {
		fmt.Fprintf(w, "mcp        %s\n", cfg.MCP.Port().Shown())
	}
	for _, name := range cfg.UpstreamNames() {
		fmt.Fprintf(w, "upstream   %s\n", upstreamText(cfg, string(name)))
	}
	for _, i := range issuers(cfg) {
		fmt.Fprintf(w, "issuer     %s: %s, audience %s, %s, keys of %s\n", i.Name, i.Issuer, i.Audience, strings.Join(i.Algorithms, " "), i.Keys)
	}
	if trusted := trusted(cfg); len(trusted) > 0 {
		fmt.Fprintf(w, "trusted    %s may name tenants by Sidenote-Tenant\n", strings.Join(trusted, " "))
	}
	for _, name := range cfg.KnowledgeNames() {
		k := cfg.Knowledge[name]
		what := cmp.Or(k.Path, "what the state folder holds")
		if k.Engine == config.EngineVectorStore {
			what = fmt.Sprintf("vector store %s on %s", k.ID, k.Upstream)
		}
		if s, ok := cfg.RemoteSource(name); ok {
			what = fmt.Sprintf("%s, fetched every %s", s, s.EveryText())
		}
		if k.Remote() {
			what = cfg.EngineText(name)
		}
		if to, _ := config.EmbeddingsUpstream(cfg); k.Embed && (k.Path != "" || !k.Remote()) {
			what += fmt.Sprintf(", texts and questions go to %s for embeddings", to)
		} else if k.Embed || k.Columns.Vector != "" {
			what += fmt.Sprintf(", questions go to %s for embeddings", to)
		}
		if k.RelevanceThreshold > 0 {
			what += fmt.Sprintf(", relevance of %v at least", float64(k.RelevanceThreshold))
		}
		fmt.Fprintf(w, "knowledge  %s: %s\n", name, what)
	}
	if to, ok := config.EmbeddingsUpstream(cfg); ok {
		fmt.Fprintf(w, "embeddings %s of %s, for %s\n", cfg.Embeddings.Model, to, cmp.Or(strings.Join(config.Texts(config.QuestionsEmbedded(cfg)), " "), "no base"))
	}
	if cfg.ModelsFile.Path != "" {
		fmt.Fprintf(w, "models     %s\n", cfg.ModelsFile)
	}
	fmt.Fprintf(w, "state      %s\n", cfg.State.Path)
	if at := cmp.Or(redis.Address(cfg.Redis.URL.Value.Reveal()), cfg.Redis.URL.Shown()); at != "" {
		fmt.Fprintf(w, "redis      %s, prefix %s, at most %s a request\n", at, cfg.Redis.Prefix, cfg.Redis.Timeout)
	}
	if own := cfg.Budgets.Redis.URL; own.Shown() != "" {
		fmt.Fprintf(w, "budgets    on %s, at most %s a call\n", cmp.Or(redis.Address(own.Value.Reveal()), own.Shown()), cfg.Budgets.Redis.Timeout)
	}
	for _, name := range cfg.TenantNames() {
		printTenantSummary(w, cfg, name)
	}
	unknown := "refused"
	if p := cfg.Proxy().Tenants.Unknown; p != nil {
		unknown = "tenant " + p.Tenant
		if open := cfg.CallerPorts().Open(true); len(open) > 0 {
			unknown += fmt.Sprintf("; anyone who reaches %s may ask", open)
		}
	}
	fmt.Fprintf(w, "unknown    %s\n", unknown)
	fmt.Fprintf(w, "retrieval  at most %s a request%s\n", cfg.WorstRetrieval().Round(time.Millisecond), retrievalWaits(cfg))
}

// printTenantSummary prints what a tenant's requests get.
func printTenantSummary(w io.Writer, cfg *config.Config, name config.Name) {
	p, _ := cfg.Tenant(name)
	fmt.Fprintf(w, "tenant     %s: policy %s, %s, knowledge %s, %d tokens\n", name, p.Name, p.Rewrite.Mode,
		cmp.Or(strings.Join(p.Rewrite.Knowledge, " "), "none"), p.Rewrite.ContextTokens)
	if p.Rewrite.Mode >= rewrite.Inject && len(p.Rewrite.Knowledge) > 0 {
		fmt.Fprintf(w, "           placement %s\n", placementText(cfg, &p))
	}
	if held := limitsText(&p.Budget); held != "" {
		fmt.Fprintf(w, "           at most %s\n", held)
	}
	if p.Models != nil {
		fmt.Fprintf(w, "           only models %s\n", strings.Join(p.Models, " "))
	}
	if f := p.Rewrite.Filter; f != nil {
		fmt.Fprintf(w, "           only documents of %s\n", f)
	}
	printHelpers(w, p)
	if e := p.Experiment; e != nil {
		fmt.Fprintf(w, "           experiment %s: %g%% of requests, by %s, get policy %s\n", e.Name, 100*e.Share, e.Unit, e.PolicyB)
	}
	printRecord(w, cfg, p.Name)
	if n := len(p.Overrides); n > 0 {
		fmt.Fprintf(w, "           otherwise for some models or routes: %s, see --tenant %s\n", terminal.Plural(n, "override"), name)
	}
}

// printRecord prints what is recorded of the requests of a policy.
func printRecord(w io.Writer, cfg *config.Config, policy string) {
	s, ok := config.Records(cfg)[policy]
	if !ok {
		return
	}
	what := "questions and sources"
	if s.Requests {
		what = "whole requests"
	}
	redacted := []string{"API keys"}
	if s.Redact.Emails {
		redacted = append(redacted, "emails")
	}
	if s.Redact.Numbers {
		redacted = append(redacted, "numbers")
	}
	if n := len(s.Redact.Patterns); n > 0 {
		redacted = append(redacted, terminal.Plural(n, "pattern"))
	}
	size, _ := config.Bytes(s.Max).MarshalText() // never fails
	fmt.Fprintf(w, "           records %s of %g%% of the chats for %s, %s at most, without %s, in %s\n",
		what, 100*s.Share, config.Age(s.Keep), size, strings.Join(redacted, ", "), filepath.Join(cfg.RecordsFolder(), policy))
}

// printHelpers prints which services a tenant's requests call, and what these read.
func printHelpers(w io.Writer, p tenant.Policy) {
	if s := p.Rewrite.Planner; s.MaxQueries > 0 {
		fmt.Fprintf(w, "           planner %s on %s reads questions and %s before them: %d queries at most, %s\n",
			cmp.Or(s.Model, "auto"), cmp.Or(s.Upstream, p.Upstream), terminal.Plural(s.Turns, "message"), s.MaxQueries, s.Timeout)
	}
	if s := p.Rewrite.Rerank; s.Documents > 0 {
		fmt.Fprintf(w, "           reranker %s reads questions and what is found for them: the texts of %d candidates at most, %s\n",
			strings.TrimSpace(s.Model+" on "+s.Upstream), s.Documents, s.Timeout)
	}
	switch s := p.Rewrite.Grade; s.By {
	case retrieval.GradeByRerank:
		fmt.Fprintf(w, "           the reranker's scores grade: relevant from %g, irrelevant below %g\n", s.Relevant, s.Irrelevant)
	case retrieval.GradeByModel:
		fmt.Fprintf(w, "           grader %s on %s reads questions and the texts of sources: relevant from %g, irrelevant below %g, %s\n",
			s.Model, s.Upstream, s.Relevant, s.Irrelevant, s.Timeout)
	}
	printStages(w, &p.Stages)
	if t := p.Tools; p.Rewrite.Mode == rewrite.Tools {
		fmt.Fprintf(w, "           models have %s: %s and %d tokens of results at most, %s\n",
			strings.Join(config.Texts(t.Offer), ", "), terminal.Plural(t.MaxRounds, "round"), t.MaxTokens, t.Timeout)
	}
	switch c := p.Citations; {
	case c.RemoveUnknown:
		fmt.Fprintln(w, "           answers get annotations for their citations; those of unknown ids are removed")
	case c.Annotate:
		fmt.Fprintln(w, "           answers get annotations for their citations")
	}
}

// waits lists what a request may wait for, in order; "" if that is only the search.
func retrievalWaits(cfg *config.Config) string {
	list := []string{"the search"}
	if cfg.Redis.Used() {
		list = slices.Insert(list, 0, "Redis")
	}
	if config.Planning(cfg) {
		list = slices.Insert(list, 0, "a plan")
	}
	if len(config.RerankServices(cfg)) > 0 {
		list = append(list, "scores")
	}
	if len(config.GradeUpstreams(cfg)) > 0 {
		list = append(list, "grades")
	}
	if len(list) == 1 {
		return ""
	}
	sum := ": " + strings.Join(list, ", then ")
	if config.Replanning(cfg) {
		sum += "; the search and what follows it twice where what is found is ambiguous"
	}
	return sum
}

// limits describes the limits of a tenant, or returns "".
func limitsText(t *budget.Terms) string {
	var parts []string
	for w, limit := range t.Limits {
		if limit > 0 {
			parts = append(parts, budget.FormatLimit(budget.Window(w), limit))
		}
	}
	return strings.Join(parts, ", ")
}
