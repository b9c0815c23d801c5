package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/proxy"
)

type checkCmd struct {
	configFlags
	Tenant string `placeholder:"NAME" help:"Print what this tenant's requests get, with all that is inherited."`
}

// Help shows how check is used.
func (checkCmd) Help() string {
	return "Reports everything that is wrong, with file, line and column.\n\n" +
		"sidenote check --config sidenote.yaml\n\nsidenote check --config sidenote.yaml --tenant support"
}

// Run checks a configuration and prints a summary.
func (c *checkCmd) Run(a *app) error {
	cfg, err := c.load(a, false)
	if err != nil {
		return err
	}
	if err := cfg.CheckFolders(nil); err != nil {
		return err
	}
	if c.Tenant != "" {
		return printTenant(a.stdout, cfg, config.Name(c.Tenant))
	}
	printSummary(a.stdout, cfg)
	for _, p := range cfg.Expired(time.Now()) {
		fmt.Fprintln(a.stderr, "warning: "+p.String())
	}
	warnOfFailures(a.stderr, cfg)
	return warnOfFilters(a, cfg)
}

// warnOfFailures warns of policies that refuse a request when some bases fail, and pass it
// when all do.
func warnOfFailures(w io.Writer, cfg *config.Config) {
	for _, name := range cfg.TenantNames() {
		if p, _ := cfg.Tenant(name); p.Rewrite.RefuseOnPartial && !p.Rewrite.RefuseOnFailure {
			fmt.Fprintf(w, "warning: tenant %s: on_failure.partial refuses where some bases fail, on_failure.retrieval passes where all do; set retrieval: refuse too\n", name)
		}
	}
}

// warnOfFilters warns of filters that name attributes which no document has. It reads the
// documents where there are filters.
func warnOfFilters(a *app, cfg *config.Config) error {
	if !filters(cfg) {
		return nil
	}
	cfg.Redis = config.Redis{}
	e, err := engine.New(a.ctx, cfg, engine.Options{})
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: filters are not compared with documents: %v\n", err)
		return nil
	}
	defer func() { _ = e.Close() }()
	if err := e.Bases.Index(a.ctx, nil); err != nil {
		fmt.Fprintf(a.stderr, "warning: filters are not compared with documents: %v\n", err)
	}
	for _, line := range e.Bases.UnknownAttributes() {
		fmt.Fprintln(a.stderr, "warning: "+line)
	}
	return nil
}

func printTenant(w io.Writer, cfg *config.Config, name config.Name) error {
	p, ok := cfg.Tenant(name)
	if !ok {
		return usageError{fmt.Errorf("--tenant: no tenant is named %q; there are %s", name, strings.Join(config.Texts(cfg.TenantNames()), ", "))}
	}
	text, err := yaml.Marshal(cfg.Policy(name))
	if err != nil {
		return fmt.Errorf("print policy of %s: %w", name, err)
	}
	fmt.Fprintf(w, "# tenant %s, policy %s, hash %s\n# upstream %s\n%s", name, p.Name, p.Hash, upstream(cfg, p.Upstream), text)
	return nil
}

// upstream shows an upstream without its secret.
func upstream(cfg *config.Config, name string) string {
	u := cfg.Proxy().Upstreams[name]
	text := fmt.Sprintf("%s → %s", name, u.BaseURL)
	switch key := u.APIKey.String(); {
	case key != "":
		text += " (api_key " + key + ")"
	case keyed(cfg, name):
		text += " (no api_key: asked without a key, for " + proxy.KeyPrefix + "… keys stay here)"
	}
	return text
}

// keyed tells whether requests with keys of ours go to an upstream.
func keyed(cfg *config.Config, upstream string) bool {
	return slices.ContainsFunc(cfg.Proxy().Tenants.Keys, func(k proxy.Key) bool { return k.Policy.Upstream == upstream })
}

func printSummary(w io.Writer, cfg *config.Config) {
	fmt.Fprintln(w, "ok")
	fmt.Fprintf(w, "listen     %s, admin %s, telemetry %s\n", cfg.Listen, cfg.Admin.Listen, cfg.Telemetry.Listen)
	for _, name := range cfg.UpstreamNames() {
		fmt.Fprintf(w, "upstream   %s\n", upstream(cfg, string(name)))
	}
	for _, name := range cfg.KnowledgeNames() {
		k := cfg.Knowledge[name]
		what := cmp.Or(k.Path, "what the state folder holds")
		if k.Engine == config.EngineVectorStore {
			what = fmt.Sprintf("vector store %s on %s", k.ID, k.Upstream)
		}
		if k.RelevanceThreshold > 0 {
			what += fmt.Sprintf(", relevance of %v at least", float64(k.RelevanceThreshold))
		}
		fmt.Fprintf(w, "knowledge  %s: %s\n", name, what)
	}
	fmt.Fprintf(w, "state      %s\n", cfg.State.Path)
	if url := cfg.Redis.URL.Value.Reveal(); url != "" {
		fmt.Fprintf(w, "redis      %s, prefix %s, at most %s a request\n", redis.Address(url), cfg.Redis.Prefix, cfg.Redis.Timeout)
	}
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		fmt.Fprintf(w, "tenant     %s: policy %s, %s, knowledge %s, %d tokens\n", name, p.Name, p.Rewrite.Mode,
			cmp.Or(strings.Join(p.Rewrite.Knowledge, " "), "none"), p.Rewrite.ContextTokens)
		if f := p.Rewrite.Filter; f != nil {
			fmt.Fprintf(w, "           only documents of %s\n", f)
		}
	}
	unknown := "refused"
	if p := cfg.Proxy().Tenants.Unknown; p != nil {
		unknown = "tenant " + p.Tenant
		if !cfg.Listen.Loopback() {
			unknown += fmt.Sprintf("; anyone who reaches %s may ask", cfg.Listen)
		}
	}
	fmt.Fprintf(w, "unknown    %s\n", unknown)
	fmt.Fprintf(w, "retrieval  at most %s a request\n", cfg.WorstRetrieval().Round(time.Millisecond))
}

// filters tells whether any tenant has filters.
func filters(cfg *config.Config) bool {
	return slices.ContainsFunc(cfg.TenantNames(), func(name config.Name) bool {
		p, _ := cfg.Tenant(name)
		return p.Rewrite.Filter != nil
	})
}
