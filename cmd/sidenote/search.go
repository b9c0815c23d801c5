package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy"
	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/store"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

type searchCmd struct {
	Question string `arg:"" help:"What to look for."`
	sourceFlags
	Policy  string   `placeholder:"NAME" help:"Policy of --config, instead of a tenant's; its planner, reranker and grader are asked, too."`
	Turn    []string `sep:"none" placeholder:"TEXT" help:"Earlier user messages, oldest first. Repeat for more."`
	Filter  []string `sep:"none" placeholder:"JSON" help:"Only documents of these attributes, as in {\"type\": \"eq\", \"key\": \"audience\", \"value\": \"public\"}. Repeat for more: all must hold, and the policy's."`
	Explain bool     `help:"Show every candidate by rank, how its score is made, and why others are excluded."`
	JSON    bool     `name:"json" help:"Print everything as JSON."`
}

// sourceFlags choose which bases are searched, and for which tenant.
type sourceFlags struct {
	Config    string   `placeholder:"FILE" help:"Configuration, YAML."`
	Knowledge []string `sep:"none" placeholder:"[NAME=]PATH" help:"Folder of documents, or the name of a base that the state folder holds. Repeat for more; SIDENOTE_KNOWLEDGE separates by commas."`
	State     string   `placeholder:"DIR" help:"Folder of the bases that are given by name ($XDG_STATE_HOME/sidenote). Without --knowledge and --config all of its bases are used."`
	Tenant    string   `placeholder:"NAME" help:"Tenant whose policy applies; required if callers without a key are refused."`
}

// Help shows how search is used.
func (searchCmd) Help() string {
	return `sidenote search "how much leave do I get" --knowledge ./docs --explain`
}

// ready opens and indexes the bases that the flags choose and returns the policy, which is that of
// the request body chat unless chat is nil. If name is true, skipped files are printed.
func (f sourceFlags) ready(a *app, name bool, chat []byte) (*server.Engine, tenant.Policy, error) {
	cfg, err := f.load(a)
	if err != nil {
		return nil, tenant.Policy{}, err
	}
	if err := checkBases(cfg); err != nil && (len(cfg.Knowledge) > 0 || !bringsChunks(chat)) {
		return nil, tenant.Policy{}, err
	}
	policy, err := f.policy(cfg, chat)
	if err != nil {
		return nil, tenant.Policy{}, err
	}
	e, err := f.open(a, name, cfg, policy.Rewrite.Knowledge, server.Options{})
	return e, policy, err
}

// bringsChunks reports whether a chat has typed chunks, which become messages without a base.
func bringsChunks(body []byte) bool {
	req, _ := chat.APIOf(body).Parse(body)
	if req == nil {
		return false
	}
	o, err := rewrite.ReadOptions(req)
	return err != nil || o.Chunks != nil // rewriting reports mistakes in the chunks
}

// load reads the configuration. If only --state is given, all bases of that folder are searched.
func (f sourceFlags) load(a *app) (*config.Config, error) {
	if f.State != "" && f.Config == "" && len(f.Knowledge) == 0 {
		held, err := heldBases(a.ctx, f.State)
		if err != nil {
			return nil, err
		}
		f.Knowledge = held
	}
	return configFlags{Config: f.Config, Flags: config.Flags{Knowledge: f.Knowledge, State: f.State}}.load(a, true)
}

// heldBases returns the names of the bases in a state folder.
func heldBases(ctx context.Context, dir string) (names []string, err error) {
	state, err := store.OpenReadOnly(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usageError{fmt.Errorf("--state: %q holds no knowledge; fill it with sidenote ingest --state %s --knowledge ./docs", dir, dir)}
	}
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	bases, err := state.Bases(ctx)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	for _, b := range bases {
		names = append(names, b.ID)
	}
	return names, nil
}

// checkBases returns an error if there is nothing to search.
func checkBases(cfg *config.Config) error {
	if len(cfg.Knowledge) == 0 {
		return usageError{fmt.Errorf("there is nothing to search; name a folder with --knowledge ./docs, a state folder with --state or a file with --config")}
	}
	return cfg.CheckFolders(nil)
}

// open builds the engine and indexes its bases, for a policy that is already known.
func (f sourceFlags) open(a *app, name bool, cfg *config.Config, bases []string, o server.Options) (*server.Engine, error) {
	cfg.Redis = config.Redis{} // what one command finds is of no use to replicas
	e, err := server.New(a.ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	err = e.Bases.Index(a.ctx, func(i server.Indexed) {
		for _, line := range screen.Unread(i.Report) {
			if name {
				fmt.Fprintln(a.stderr, "skipped "+line)
			}
		}
	})
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	e.Bases.AwaitStores(a.ctx, nil)
	e.Bases.AwaitFloor(a.ctx, bases)
	return e, nil
}

// policy returns the policy of the tenant or, unless chat is nil, of the request body chat.
func (f sourceFlags) policy(cfg *config.Config, chat []byte) (tenant.Policy, error) {
	name := config.Name(f.Tenant)
	if unknown := cfg.Proxy().Tenants.Unknown; name == "" && unknown != nil {
		name = config.Name(unknown.Tenant)
	}
	p, ok := cfg.Tenant(name)
	if name == "" {
		return tenant.Policy{}, usageError{fmt.Errorf("callers without a key are refused; say who asks by --tenant: there are %s", strings.Join(config.Texts(cfg.TenantNames()), ", "))}
	}
	if !ok {
		return tenant.Policy{}, usageError{fmt.Errorf("--tenant: no tenant is named %q; there are %s", name, strings.Join(config.Texts(cfg.TenantNames()), ", "))}
	}
	one := &p
	if chat != nil {
		var err error
		if one, err = policyOf(&p, chat); err != nil {
			return tenant.Policy{}, fmt.Errorf("the request would be refused: %w", err)
		}
	}
	whole := *one
	var err error
	if whole.Rewrite, err = one.Rewrite.WithClaims(nil); err != nil {
		return tenant.Policy{}, fmt.Errorf("what tenant %s may see depends on its callers' tokens: %w", name, err)
	}
	return whole, nil
}

// policyOf returns the policy that a tenant's chat gets. For a body that cannot be parsed it is p;
// the caller reports the mistake.
func policyOf(p *tenant.Policy, body []byte) (*tenant.Policy, error) {
	req, err := chat.APIOf(body).Parse(body)
	if err != nil {
		return p, nil
	}
	if p.Models != nil {
		names, err := req.Models()
		if err != nil {
			return nil, err
		}
		if err := p.Models.Allow(names...); err != nil {
			return nil, err
		}
	}
	return p.ForChat("/v1/chat/completions", req)
}

// commandDeadline is the shortest search deadline of a command; nobody else is waiting.
const commandDeadline = 10 * time.Second

// Run searches as a request of the tenant would, but with a deadline of commandDeadline or more.
func (c *searchCmd) Run(a *app) error {
	asked, err := c.filter()
	if err != nil {
		return err
	}
	e, policy, err := c.ready(a)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	q := retrieval.Query{
		Tenant: policy.Tenant, Filter: filter.AllOf(policy.Filter, asked),
		Text: c.Question, Previous: retrieval.Turns(c.Turn), Encoding: server.ChunkEncoding, Settings: policy.Search,
	}
	q.Settings.Deadline = max(q.Settings.Deadline, commandDeadline)
	for _, id := range policy.Knowledge {
		q.Bases = append(q.Bases, retrieval.Ref{Knowledge: id})
	}
	e.Bases.RefreshEngines(a.ctx, policy.Knowledge)
	plain := q
	if c.Policy != "" {
		e.Planners.SetHelpers(&policy, proxy.PlanDryRun(&policy, "", nil))
		policy.AddStages(&q, "", c.earlier())
	}
	res, err := e.Rewriter.Retriever.Retrieve(a.ctx, q)
	if err != nil {
		return e.Bases.WhyUnavailable(policy.Knowledge, err)
	}
	for _, line := range append(e.Bases.InPart(policy.Knowledge), e.Bases.Elsewhere(policy.Knowledge)...) {
		fmt.Fprintln(a.stderr, line)
	}
	found := explain.SearchResult{Result: res, Settings: q.Settings}
	if c.Explain {
		if found.Explained, err = server.Explain(a.ctx, e, plain); err != nil {
			return err
		}
	}
	switch {
	case c.JSON:
		answer := explain.NewLookup(&res)
		answer.Stages = explain.LookupStages(&res)
		if c.Explain {
			found.Explain(&answer)
		}
		return printJSON(a.stdout, answer)
	case c.Explain:
		screen.Candidates(a.stdout, &found)
	default:
		screen.Helpers(a.stderr, res.Planned, res.Reranked, res.Graded)
		screen.Result(a.stdout, res, terminal.Columns(a.stdout))
	}
	return nil
}

// ready is sourceFlags.ready for the policy of --policy.
func (c *searchCmd) ready(a *app) (*server.Engine, rewrite.Policy, error) {
	if c.Policy == "" {
		e, policy, err := c.sourceFlags.ready(a, true, nil)
		return e, policy.Rewrite, err
	}
	if c.Tenant != "" {
		return nil, rewrite.Policy{}, usageError{errors.New("--policy and --tenant both choose the policy; give one of them")}
	}
	cfg, err := c.load(a)
	if err != nil {
		return nil, rewrite.Policy{}, err
	}
	if cfg, err = config.WithSinglePolicy(cfg, config.Name(c.Policy)); err != nil {
		return nil, rewrite.Policy{}, usageError{fmt.Errorf("--policy: %w", err)}
	}
	if err := checkBases(cfg); err != nil {
		return nil, rewrite.Policy{}, err
	}
	policy, err := c.policy(cfg, nil)
	if err != nil {
		return nil, rewrite.Policy{}, err
	}
	e, err := c.open(a, true, cfg, policy.Rewrite.Knowledge, server.Options{})
	return e, policy.Rewrite, err
}

// earlier returns the user's previous turns, last first.
func (c *searchCmd) earlier() []string {
	earlier := slices.Clone(c.Turn)
	slices.Reverse(earlier)
	return earlier
}

// filter returns the conjunction of all --filter flags.
func (c *searchCmd) filter() (*filter.Filter, error) {
	filters := make([]*filter.Filter, len(c.Filter))
	for i, text := range c.Filter {
		var err error
		if filters[i], err = filter.Parse([]byte(text)); err != nil {
			return nil, usageError{fmt.Errorf("--filter %s: %w", text, err)}
		}
	}
	return filter.AllOf(filters...), nil
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
