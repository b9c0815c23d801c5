package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/cmd/internal/console"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/engine"
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
	cfg, err := c.load(a, false)
	if err != nil {
		return err
	}
	out := newOutput(a.stderr, cfg.Telemetry.Log)
	defer out.close()
	defer outliveHangups(out.tell)()
	ls, err := listen(a.ctx, cfg)
	if err != nil {
		return err
	}
	defer ls.close()
	if err := refuseOpen(cfg, ls.data); err != nil {
		return err
	}
	e, err := engine.New(a.ctx, cfg, engine.Options{Keep: true, Address: ls.adminAddress(), Tell: out.tell})
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
	if err := refuseLoop(a.ctx, cfg, ls, net.DefaultResolver.LookupNetIP); err != nil {
		return err
	}
	return a.serve(out, e, ls, func(ctx context.Context) error {
		defer panics.Recover(e.Panicked, nil) // requests are still served
		defer out.announce(ctx, cfg, ls, reachable)()
		for _, p := range cfg.Expired(time.Now()) {
			out.tell(slog.LevelWarn, p.String())
		}
		e.Bases.Serve(ctx, out.indexed, func() { out.announceLimits(ctx, e) })
		return nil
	})
}

// listeners are the open ports; those that are off are nil.
type listeners struct{ data, admin, telemetry net.Listener }

// listen opens all ports or none.
func listen(ctx context.Context, cfg *config.Config) (ls listeners, err error) {
	for _, port := range []struct {
		key string
		at  config.Address
		to  *net.Listener
	}{
		{"listen", cfg.Listen, &ls.data}, {"admin.listen", cfg.Admin.Listen, &ls.admin}, {"telemetry.listen", cfg.Telemetry.Listen, &ls.telemetry},
	} {
		if port.at == config.Off {
			continue
		}
		var lc net.ListenConfig
		if *port.to, err = lc.Listen(ctx, "tcp", string(port.at)); err != nil {
			ls.close()
			return listeners{}, fmt.Errorf("%s: %s: %w", port.key, port.at, console.Cause(err))
		}
	}
	return ls, nil
}

// adminAddress is where other processes find the admin port; "" if it is off.
func (ls listeners) adminAddress() string {
	if ls.admin == nil {
		return ""
	}
	return reached(ls.admin)
}

func (ls listeners) close() {
	for _, l := range []net.Listener{ls.data, ls.admin, ls.telemetry} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// serve answers on all ports and runs begin beside it, until the process is asked to stop
// or one of them fails. Then answers that are open may end within shutdown_grace.
func (a *app) serve(out *output, e *engine.Engine, ls listeners, begin func(context.Context) error) error {
	signal.Ignore(syscall.SIGPIPE) // when the reader of the log is gone its lines are dropped and counted
	e.Metrics.Watch("log_dropped_total", "Lines of the log that were dropped because it could not be written.", nil, true,
		func() float64 { return float64(out.writer.Dropped()) })
	records := report.Recorders{out.recorder}
	if a.reports != nil {
		records = append(records, a.reports)
	}
	data, err := e.DataServer(records, out.logger)
	if err != nil {
		return err
	}
	admin, telemetry := e.AdminServer(out.logger), e.TelemetryServer(out.logger)
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
	answer(data.Serve, ls.data)
	answer(admin.Serve, ls.admin)
	answer(telemetry.Serve, ls.telemetry)
	group.Go(func() error {
		if err := begin(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Config.ShutdownGrace)
		defer cancel()
		e.Stopping() // /readyz answers 503 from now on
		if a.ctx.Err() != nil && e.Config.ShutdownDelay > 0 {
			out.tell(slog.LevelInfo, "stopping: /readyz says so; requests are served for another "+e.Config.ShutdownDelay.String())
			data.Drain()
			_ = engine.Pause(grace, e.Config.ShutdownDelay) // ends early when the grace is over
		}
		// A server that was stopped before it began to serve does not close its
		// listener. Probes and scrapes go on until the last answer has ended.
		defer ls.close()
		err := errors.Join(data.Shutdown(grace), admin.Shutdown(grace), telemetry.Shutdown(grace))
		if errors.Is(err, context.DeadlineExceeded) { // the grace is over, as configured
			out.logger.Warn("shut down: answers that were still open were cut", "shutdown_grace", e.Config.ShutdownGrace.String())
			return nil
		}
		return err
	})
	return group.Wait()
}

// outliveHangups keeps the process alive on SIGHUP, which comes when its terminal closes, or
// from somebody who expects that the configuration is read again; a line says that it is
// not. Under nohup SIGHUP stays ignored.
func outliveHangups(tell func(slog.Level, string)) (stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			tell(slog.LevelWarn, "SIGHUP: the configuration is read at the start only; restart to have it read again")
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
	}
}
