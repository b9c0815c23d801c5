package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/cmd/sidenote/internal/serving"
	"sidenote/cmd/sidenote/internal/telemetry"
	"sidenote/proxy/panics"
)

type serveCmd struct{ configFlags }

// Help shows how serve is used.
func (serveCmd) Help() string {
	return "sidenote serve --upstream https://api.openai.com --knowledge ./docs\n\n" +
		"sidenote serve --upstream http://127.0.0.1:11434 --knowledge handbook=./docs --knowledge ./faq\n\n" +
		"sidenote serve --config sidenote.yaml\n\nThen let apps call http://127.0.0.1:8080/v1."
}

// Run serves until it is asked to stop.
func (c *serveCmd) Run(a *app) error {
	again := &serving.Reloader{Load: func(seen func(string)) (*config.Config, error) {
		src := c.source(a)
		src.OnRead = seen
		return config.Load(src)
	}}
	cfg, err := again.Start()
	if err != nil {
		return err
	}
	out := serving.NewOutput(a.stderr, cfg.Telemetry.Log)
	defer out.Close()
	hangups, stop := outliveHangups()
	defer stop()
	ls, err := serving.OpenPorts(a.ctx, cfg, out.Log)
	if err != nil {
		return err
	}
	defer ls.Close()
	if err := serving.RefuseOpen(cfg, ls); err != nil {
		return usageError{err}
	}
	e, err := server.New(a.ctx, cfg, server.Options{Keep: true, Address: ls.AdminAddress(), Log: out.Log, Audit: out.Lines()})
	if err != nil {
		if a.ctx.Err() != nil {
			return nil // asked to stop
		}
		return err
	}
	defer func() { _ = e.Close() }() // nothing is lost on an error: caches are refilled, the state folder is written at once
	if err := e.Bases.CheckStart(a.ctx); err != nil {
		return err
	}
	if err := serving.Refuse(a.ctx, cfg, ls); err != nil {
		return usageError{err}
	}
	stopSending, err := sendTelemetry(a, e, out)
	if err != nil {
		return usageError{err}
	}
	defer stopSending()
	again.Log, again.Running, again.Apply, again.Panicked = out.Log, e.Running, e.Reload, e.Panicked
	again.Record = e.Audit().Record
	again.Check = func(ctx context.Context, cfg *config.Config) error { return serving.Refuse(ctx, cfg, ls) }
	e.Reloader = again
	again.Show(e.Metrics)
	return serving.Serve(a.ctx, serving.Parts{Engine: e, Ports: ls, Output: out, Reports: a.reports}, func(ctx context.Context) error {
		defer panics.Recover(e.Panicked, nil) // requests are still served
		reloads := make(chan struct{})
		panics.Go(e.Panicked, func() { again.Serve(ctx, hangups) }, func() { close(reloads) })
		defer func() { <-reloads }()
		defer out.Announce(ctx, cfg, ls, reachable)()
		followed, readings := make(chan struct{}), func() []server.Reading { return server.Readings(e.Bases) }
		panics.Go(e.Panicked, func() { screen.FollowReading(ctx, readings, out.Reading) }, func() { close(followed) })
		defer func() { <-followed }()
		for _, p := range append(cfg.Expired(time.Now()), cfg.ShortTokens()...) {
			out.Log(slog.LevelWarn, p.String())
		}
		e.Bases.Serve(ctx, out.Indexed, func() { out.AnnounceLimits(ctx, e) })
		return nil
	})
}

// sendTelemetry begins to send the engine's traces and metrics where the environment says.
func sendTelemetry(a *app, e *server.Engine, out *serving.Output) (stop func(), err error) {
	version, _ := server.Version()
	t, err := telemetry.New(a.ctx, telemetry.Options{Env: a.env, Version: version, Metrics: e.Metrics, Log: out.Log})
	if err != nil {
		return nil, err
	}
	e.Metrics.Watch("trace_spans_lost_total", "Spans that the receiver of traces did not take.", nil, true, func() float64 { return float64(t.Lost()) })
	e.Tracing = t.Tracing(e.Config.Telemetry.Traces.Texts)
	return t.Close, nil
}

// outliveHangups keeps the process alive on SIGHUP and returns a channel of these signals. They
// request a reload; those of a closing terminal do no harm. Under nohup SIGHUP stays ignored.
func outliveHangups() (hangups <-chan os.Signal, stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return nil, func() {}
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}
