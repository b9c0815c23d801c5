package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

type askCmd struct {
	Question string `arg:"" help:"What to ask."`
	sourceFlags
	Upstream string `placeholder:"URL" help:"The API that answers, as in https://api.openai.com."`
	Policy   string `placeholder:"NAME" help:"Policy of --config, instead of a tenant's, or a preset of answers in stages, as sidenote stages lists them."`
	Model    string `placeholder:"NAME" help:"Model to ask (that of the upstream, if it has only one)."`
	Stages   bool   `help:"Show the output of each stage before the answer."`
	JSON     bool   `name:"json" help:"Print everything as JSON."`
}

// Help shows how ask is used.
func (askCmd) Help() string {
	return "Asks as an app would, with the sources and stages of the policy. The answer goes to stdout; progress, and the sources that it cites, to stderr. " +
		"An upstream without an api_key in --config gets the key of $" + client.KeyEnv + ". Limits of the policy hold for this question alone.\n\n" +
		"Exits with 3 if a stage failed and the answer was made without it.\n\n" +
		"sidenote ask \"How many weeks of parental leave?\" --policy careful --knowledge ./docs --upstream https://api.openai.com --model gpt-5-mini"
}

// Run asks the question once.
func (c *askCmd) Run(a *app) error {
	cfg, policy, err := c.chosen(a)
	if err != nil {
		return err
	}
	e, err := c.open(a, true, cfg, policy.Rewrite.Knowledge, server.Options{Serve: true})
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	for _, line := range e.Bases.InPart(policy.Rewrite.Knowledge) {
		fmt.Fprintln(a.stderr, line)
	}
	up := client.UpstreamOf(cfg, &policy, a.env)
	up.Reach = func(ctx context.Context) error { return reachable(ctx, up.Upstream) }
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	cl, closing, err := client.OpenChat(e, policy.Tenant, up.Key, log)
	if err != nil {
		return err
	}
	answer, err := c.ask(a, cl, &up, &policy)
	if a.ctx.Err() != nil {
		err = errors.New("stopped before the answer had ended")
	}
	if why := answer.Report.StageFailed(); err == nil && why != "" {
		err = partError{fmt.Errorf("stage %s failed: %s", answer.Report.Stages.Failed().Name, why)}
	}
	return errors.Join(err, closing())
}

// chosen reads the configuration and returns the policy that the flags choose.
func (c *askCmd) chosen(a *app) (*config.Config, tenant.Policy, error) {
	if c.Policy != "" && c.Tenant != "" {
		return nil, tenant.Policy{}, usageError{errors.New("--policy and --tenant both choose the policy; give one of them")}
	}
	flags := config.Flags{Knowledge: c.Knowledge, State: c.State, Upstream: c.Upstream}
	if c.Config == "" { // the default ports may be in use by the very process that is asked
		flags.Listen, flags.Admin = "127.0.0.1:0", config.Off
	}
	cfg, err := configFlags{Config: c.Config, Flags: flags}.load(a, false)
	if err != nil {
		return nil, tenant.Policy{}, err
	}
	if c.Policy != "" {
		if cfg, err = client.ChatUnder(cfg, config.Name(c.Policy)); err != nil {
			return nil, tenant.Policy{}, usageError{fmt.Errorf("--policy: %w", err)}
		}
	}
	if err := cfg.CheckFolders(nil); err != nil {
		return nil, tenant.Policy{}, err
	}
	policy, err := c.policy(cfg, nil)
	return cfg, policy, err
}

// ask sends the question to the upstream under a policy and prints the answer.
func (c *askCmd) ask(a *app, cl *client.Chat, up *client.Upstream, policy *tenant.Policy) (client.Answer, error) {
	if c.Model == "" {
		var err error
		if c.Model, err = up.Model(a.ctx, cl); err != nil {
			if errors.Is(err, client.ErrNoModel) {
				err = usageError{err}
			}
			return client.Answer{}, err
		}
	}
	body, err := json.Marshal(client.Question(c.Model, c.Question, !up.NoUsageOption))
	if err != nil {
		return client.Answer{}, err
	}
	if c.JSON {
		answer, err := cl.Ask(a.ctx, body, client.Follow{})
		if err != nil {
			return answer, up.Explain(a.ctx, err)
		}
		return answer, printJSON(a.stdout, answer.Result(c.Question))
	}
	live, stop := newProgress(a)
	defer stop()
	show := &screen.AnswerView{Out: a.stdout, Err: a.stderr, Terminal: terminal.IsTerminal(a.stdout), Live: live, Stages: c.Stages, Now: time.Now}
	var chain []string
	if policy.Rewrite.Mode == rewrite.Staged {
		for _, s := range policy.Stages.Stages {
			chain = append(chain, s.Name)
		}
	}
	show.Begin(chain)
	ctx, done := context.WithCancel(a.ctx)
	var showing sync.WaitGroup
	showing.Go(func() { show.Run(ctx) })
	answer, err := cl.Ask(a.ctx, body, show.Follow())
	done()
	showing.Wait()
	show.End(&answer, err == nil)
	if err != nil {
		err = up.Explain(a.ctx, err)
	}
	return answer, err
}
