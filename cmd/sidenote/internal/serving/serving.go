// Package serving serves the ports of a configuration until the process is asked to stop. It
// reloads the configuration on request or when one of its files changes; an invalid one changes
// nothing.
package serving

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"

	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/report"
)

// Parts are the arguments of Serve.
type Parts struct {
	Engine  *server.Engine
	Ports   Listeners
	Output  *Output
	Reports report.Recorder // gets the report of each request, in addition to Output; may be nil
}

// Serve serves all ports and runs begin concurrently, until ctx ends or one of them fails.
// Responses in progress may then complete within shutdown_grace.
func Serve(ctx context.Context, p Parts, begin func(context.Context) error) error {
	signal.Ignore(syscall.SIGPIPE) // if the reader of the log is gone, lines are dropped and counted
	e, out := p.Engine, p.Output
	e.Metrics.Watch("log_dropped_total", "Lines of the log that were dropped because it could not be written.", nil, true,
		func() float64 { return float64(out.Dropped()) })
	records := report.Recorders{out.Recorder}
	if p.Reports != nil {
		records = append(records, p.Reports)
	}
	data, err := e.DataServer(records, out.Logger)
	if err != nil {
		return err
	}
	e.WatchUpstreams()
	e.WatchCredentials()
	admin, telemetry := e.AdminServer(out.Logger), e.TelemetryServer(out.Logger)
	group, running := errgroup.WithContext(ctx)
	answer := func(serve func(net.Listener) error, l net.Listener) {
		if l == nil {
			return
		}
		group.Go(func() error {
			if err := serve(l); running.Err() == nil {
				return err
			}
			return nil // it was stopped, whatever the error
		})
	}
	for _, l := range p.Ports.Data {
		answer(data.Serve, l)
	}
	answer(admin.Serve, p.Ports.Admin)
	answer(telemetry.Serve, p.Ports.Telemetry)
	stopMCP := func(context.Context) error { return nil }
	if p.Ports.MCP != nil {
		srv := server.MCPServer(e, out.Logger)
		answer(srv.Serve, p.Ports.MCP)
		stopMCP = srv.Shutdown
	}
	group.Go(func() error {
		if err := begin(running); running.Err() == nil {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-running.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(running), e.Running().ShutdownGrace)
		defer cancel()
		e.Stopping() // /readyz answers 503 from now on
		if ctx.Err() != nil && e.Running().ShutdownDelay > 0 {
			out.Log(slog.LevelInfo, "stopping: /readyz says so; requests are served for another "+e.Running().ShutdownDelay.String())
			data.Drain()
			_ = server.Pause(grace, e.Running().ShutdownDelay) // ends early when the grace is over
		}
		// A server that was stopped before it began to serve does not close its listener. Probes
		// and scrapes are served until the last response has ended.
		defer p.Ports.Close()
		err := errors.Join(data.Shutdown(grace), stopMCP(grace), admin.Shutdown(grace), telemetry.Shutdown(grace))
		if errors.Is(err, context.DeadlineExceeded) { // the grace is over, as configured
			out.Logger.Warn("shut down: answers that were still open were cut", "shutdown_grace", e.Running().ShutdownGrace.String())
			return nil
		}
		return err
	})
	return group.Wait()
}
