package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/cmd/sidenote/internal/output"
	"sidenote/cmd/sidenote/internal/ports"
	"sidenote/cmd/sidenote/internal/reload"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
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
	again := &reload.Reloader{Load: func(seen func(string)) (*config.Config, error) {
		src := c.source(a)
		src.Seen = seen
		return config.Load(src)
	}}
	cfg, err := again.Start()
	if err != nil {
		return err
	}
	out := output.New(a.stderr, cfg.Telemetry.Log)
	defer out.Close()
	hangups, stop := outliveHangups()
	defer stop()
	ls, err := ports.Open(a.ctx, cfg, out.Tell)
	if err != nil {
		return err
	}
	defer ls.Close()
	if err := ports.RefuseOpen(cfg, ls); err != nil {
		return usageError{err}
	}
	e, err := engine.New(a.ctx, cfg, engine.Options{Keep: true, Address: ls.AdminAddress(), Tell: out.Tell})
	if err != nil {
		if a.ctx.Err() != nil {
			return nil // asked to stop
		}
		return err
	}
	defer func() { _ = e.Close() }() // an error loses nothing: caches are filled again, the state folder is written at once
	if err := e.Bases.CheckStart(a.ctx); err != nil {
		return err
	}
	if err := ports.Refuse(a.ctx, cfg, ls); err != nil {
		return usageError{err}
	}
	again.Tell, again.Running, again.Apply, again.Panicked = out.Tell, e.Running, e.Reload, e.Panicked
	again.Check = func(ctx context.Context, cfg *config.Config) error { return ports.Refuse(ctx, cfg, ls) }
	e.Reloader = again
	again.Show(e.Metrics)
	return a.serve(out, e, ls, func(ctx context.Context) error {
		defer panics.Recover(e.Panicked, nil) // requests are still served
		reloads := make(chan struct{})
		panics.Go(e.Panicked, func() { again.Serve(ctx, hangups) }, func() { close(reloads) })
		defer func() { <-reloads }()
		defer out.Announce(ctx, cfg, ls, reachable)()
		followed, readings := make(chan struct{}), func() []engine.Reading { return engine.Readings(e.Bases) }
		panics.Go(e.Panicked, func() { screen.FollowReading(ctx, readings, out.Reading) }, func() { close(followed) })
		defer func() { <-followed }()
		for _, p := range cfg.Expired(time.Now()) {
			out.Tell(slog.LevelWarn, p.String())
		}
		e.Bases.Serve(ctx, out.Indexed, func() { out.AnnounceLimits(ctx, e) })
		return nil
	})
}

// serve answers on all ports and runs begin beside it, until the process is asked to stop
// or one of them fails. Then answers that are open may end within shutdown_grace.
func (a *app) serve(out *output.Output, e *engine.Engine, ls ports.Listeners, begin func(context.Context) error) error {
	signal.Ignore(syscall.SIGPIPE) // when the reader of the log is gone its lines are dropped and counted
	e.Metrics.Watch("log_dropped_total", "Lines of the log that were dropped because it could not be written.", nil, true,
		func() float64 { return float64(out.Dropped()) })
	records := report.Recorders{out.Recorder}
	if a.reports != nil {
		records = append(records, a.reports)
	}
	data, err := e.DataServer(records, out.Logger)
	if err != nil {
		return err
	}
	admin, telemetry := e.AdminServer(out.Logger), e.TelemetryServer(out.Logger)
	group, ctx := errgroup.WithContext(a.ctx)
	answer := func(serve func(net.Listener) error, l net.Listener) {
		if l == nil {
			return
		}
		group.Go(func() error {
			if err := serve(l); ctx.Err() == nil {
				return err
			}
			return nil // it was stopped, whatever the error
		})
	}
	for _, l := range ls.Data {
		answer(data.Serve, l)
	}
	answer(admin.Serve, ls.Admin)
	answer(telemetry.Serve, ls.Telemetry)
	stopMCP := func(context.Context) error { return nil }
	if ls.MCP != nil {
		server := engine.MCPServer(e, out.Logger)
		answer(server.Serve, ls.MCP)
		stopMCP = server.Shutdown
	}
	group.Go(func() error {
		if err := begin(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Running().ShutdownGrace)
		defer cancel()
		e.Stopping() // /readyz answers 503 from now on
		if a.ctx.Err() != nil && e.Running().ShutdownDelay > 0 {
			out.Tell(slog.LevelInfo, "stopping: /readyz says so; requests are served for another "+e.Running().ShutdownDelay.String())
			data.Drain()
			_ = engine.Pause(grace, e.Running().ShutdownDelay) // ends early when the grace is over
		}
		// A server that was stopped before it began to serve does not close its
		// listener. Probes and scrapes go on until the last answer has ended.
		defer ls.Close()
		err := errors.Join(data.Shutdown(grace), stopMCP(grace), admin.Shutdown(grace), telemetry.Shutdown(grace))
		if errors.Is(err, context.DeadlineExceeded) { // the grace is over, as configured
			out.Logger.Warn("shut down: answers that were still open were cut", "shutdown_grace", e.Running().ShutdownGrace.String())
			return nil
		}
		return err
	})
	return group.Wait()
}

// outliveHangups keeps the process alive on SIGHUP, and returns a channel of these signals:
// they come from somebody who wants the configuration read again, or when the terminal
// closes, which does no harm. Under nohup SIGHUP stays ignored.
func outliveHangups() (hangups <-chan os.Signal, stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return nil, func() {}
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}
