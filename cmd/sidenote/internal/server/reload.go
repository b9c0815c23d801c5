package server

import (
	"context"
	"reflect"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/admin"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// A Reloader reads the configuration again and calls Engine.Reload.
type Reloader interface {
	Reload(context.Context) (admin.Reloaded, error)
	Problem() string // why the last reading changed nothing; "" if it succeeded
}

// Running returns the running configuration: that of the last Reload, or the first one.
func (e *Engine) Running() *config.Config { return e.running.Load() }

// Reload applies the tenants, policies, identity, models, upstreams, admin tokens and embedded
// bases of cfg; requests that began before keep the old ones. Everything else in cfg must be as in
// Running. Keys of issuers with a new source are fetched, within 5 s. After an error nothing has
// changed. Call it neither concurrently nor before DataServer and AdminServer.
func (e *Engine) Reload(ctx context.Context, cfg *config.Config) error {
	old := e.issuers.Load()
	issuers, err := old.Next(ctx, cfg)
	if err != nil {
		return err
	}
	e.Metrics.Add(report.MetricNames{
		Tenants: config.Texts(cfg.TenantNames()), Policies: Policies{Config: cfg}.Names(), Upstreams: config.Texts(cfg.UpstreamNames()), Knowledge: config.Texts(cfg.KnowledgeNames()), Stages: stageNames(cfg), Experiments: experimentNames(cfg),
	})
	rw := e.admin.Load().Rewriter
	if old := e.Running(); !reflect.DeepEqual(cfg.Models, old.Models) || !reflect.DeepEqual(cfg.ModelsFile, old.ModelsFile) {
		rw = &rewrite.Rewriter{Retriever: rw.Retriever, Models: &ModelTable{Rows: cfg.ModelTable(), Encodings: e.Reader.encodings}, Calibration: rw.Calibration}
	}
	takeBack, err := addBases(ctx, e.Bases, cfg) // Running is cfg from here on
	if err != nil {
		return err
	}
	applied := false
	defer func() {
		if !applied { // an error, or a panic
			takeBack()
		}
	}()
	e.monitor.TellOfCertificates(cfg)
	data := cfg.Proxy()
	data.Tenants = e.tenants(cfg, issuers)
	var keepPlanners func()
	data.Tools, data.Outputs, data.Chains = kitOf(e, data.Tenants), outputsOf(e, data.Tenants), e.Chains()
	data.Given = givenOf(e, data.Tenants)
	if data.Planners, keepPlanners, err = e.planners.Of(cfg, rw.Models); err != nil {
		return err
	}
	next := e.adminHandler(cfg, rw, data.Tenants, data.Planners)
	if err := e.data.Reload(data, rw); err != nil {
		return err
	}
	applied = true
	if e.records != nil {
		e.records.Configure(config.Records(cfg))
	}
	if e.experiments != nil {
		e.experiments.Configure(cfg.Experiments())
	}
	keepPlanners()
	e.admin.Store(next)
	e.issuers.Store(issuers)
	issuers.Replace(old, e.tasks.Start)
	settleBases(e.Bases, cfg, e.tasks)
	return nil
}
