package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/tenant"
)

// chosen reads the configuration and returns the policy whose stages answer.
func (c *evalCmd) chosen(a *app) (*config.Config, tenant.Policy, error) {
	cfg, err := c.load(a)
	if err == nil && c.Policy != "" {
		if cfg, err = config.WithSinglePolicy(cfg, config.Name(c.Policy)); err != nil {
			err = usageError{fmt.Errorf("--policy: %w", err)}
		}
	}
	if err != nil {
		return nil, tenant.Policy{}, err
	}
	policy, err := c.policy(cfg, nil)
	return cfg, policy, err
}

// ofCollection indexes the documents of a collection in a base that is searched under the policy,
// or prints what embedding them would take.
func (c *evalCmd) ofCollection(a *app, e *evaluation, show *terminal.Progress) (end func(), err error) {
	cfg, policy, err := c.chosen(a)
	if err != nil {
		return nil, err
	}
	remove, err := c.keepVectors()
	if err != nil {
		return nil, err
	}
	closing := remove
	defer func() {
		if err != nil || e.Subject == nil {
			closing()
		}
	}()
	embeds := len(policy.Rewrite.Knowledge) == 0 || slices.ContainsFunc(policy.Rewrite.Knowledge, func(id string) bool { return cfg.Knowledge[config.Name(id)].Embed })
	cfg = config.WithSingleBase(cfg, scratchBase, c.Data, embeds)
	cfg.Redis, cfg.State = config.Redis{}, config.State{Path: c.State}
	used := new(evalUsage)
	opened, err := server.New(a.ctx, cfg, server.Options{Vectors: true, Used: used.Count})
	if err != nil {
		return nil, err
	}
	closing = func() { _ = opened.Close(); remove() }
	collected, err := collectRun(a.ctx, opened, policy, e.Data.Documents, show)
	if err != nil {
		return nil, err
	}
	if c.Plan {
		show.Clear()
		return nil, c.plan(a, cfg, collected)
	}
	e.Subject, err = collected.Subject(a.ctx, c.Model, used, show)
	return closing, err
}

// plan prints what embedding a collection would take.
func (c *evalCmd) plan(a *app, cfg *config.Config, collected *collectedRun) error {
	estimate, embeds, err := collected.Estimate(a.ctx)
	if err != nil {
		return err
	}
	if !embeds {
		return usageError{errors.New("--plan: no base of the policy is embedded; write embeddings, and embed: true in one")}
	}
	plan := newEmbeddingPlan(cfg, plannedBase{ID: c.name(), EmbeddingEstimate: estimate})
	plan.Object = "eval.plan"
	if c.JSON {
		return printJSON(a.stdout, plan)
	}
	plan.Print(a.stdout)
	return nil
}

// ofBases opens the bases that the flags choose and calls read, which reads the questions for the
// documents of those bases.
func (c *evalCmd) ofBases(a *app, e *evaluation, show *terminal.Progress, read func(*evalSubject) error) (end func(), err error) {
	show.Clear()
	cfg, policy, err := c.chosen(a)
	if err == nil {
		err = checkBases(cfg)
	}
	if err != nil {
		return nil, err
	}
	used := new(evalUsage)
	opened, err := c.open(a, !c.JSON, cfg, policy.Rewrite.Knowledge, server.Options{Used: used.Count})
	if err != nil {
		return nil, err
	}
	end = func() { _ = opened.Close() }
	for _, line := range opened.Bases.InPart(policy.Rewrite.Knowledge) {
		fmt.Fprintln(a.stderr, line)
	}
	if e.Subject, err = subjectOfBases(a.ctx, opened, policy, c.Model, used); err == nil {
		err = read(e.Subject)
	}
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// isTable reports whether the questions are in a file; if nothing is there, the name decides.
func (c *evalCmd) isTable() bool {
	info, err := os.Stat(c.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return strings.EqualFold(filepath.Ext(c.Data), ".csv")
	}
	return err == nil && !info.IsDir()
}

// name returns the base name of the folder or file.
func (c *evalCmd) name() string {
	if path, err := filepath.Abs(c.Data); err == nil {
		return filepath.Base(path)
	}
	return c.Data
}
