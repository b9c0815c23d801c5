package chatclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/proxy/panics"
	"sidenote/proxy/transport/inbound"
)

// closeGrace is how long an answer may go on that nobody reads any more.
const closeGrace = 100 * time.Millisecond

// Open serves the data port of an engine to one client, as a caller of a tenant, until it is
// closed. The port is in memory: on one of the machine, anybody there could ask without a key.
func Open(e *engine.Engine, tenant, key string, log *slog.Logger) (c *Client, closing func() error, err error) {
	c = &Client{BaseURL: "http://localhost/v1", Key: key, Reports: NewReports()}
	server, err := e.DataServer(c.Reports, log)
	if err != nil {
		return nil, nil, err
	}
	memory := fasthttputil.NewInmemoryListener()
	served := make(chan error, 1)
	panics.Go(e.Panicked, func() {
		served <- server.Serve(&inbound.Listener{Listener: memory, Tenant: tenant})
	}, func() { close(served) })
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return memory.Dial() }, DisableCompression: true}
	c.HTTP = &http.Client{Transport: transport}
	return c, func() error {
		transport.CloseIdleConnections()
		grace, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		err := server.Shutdown(grace)
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil // a question that was given up
		}
		_ = memory.Close()
		if err = errors.Join(err, <-served); err != nil {
			return fmt.Errorf("close: %w", err)
		}
		return nil
	}, nil
}
