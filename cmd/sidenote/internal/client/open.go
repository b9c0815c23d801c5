// Package client provides Admin, a client of the admin port, and Chat, which sends a question to a
// proxy in this process and follows the answer. They use only what is open to any app.
package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
)

// closeGrace is how long an abandoned answer may continue.
const closeGrace = 100 * time.Millisecond

// OpenChat serves the data port of an engine to a single client, as a tenant, until closing is
// called. The port is in memory: on a network port, anybody on the machine could send requests
// without a key.
func OpenChat(e *server.Engine, tenant, key string, log *slog.Logger) (c *Chat, closing func() error, err error) {
	c = &Chat{BaseURL: "http://localhost/v1", Key: key, Reports: NewReports()}
	srv, err := e.DataServer(c.Reports, log)
	if err != nil {
		return nil, nil, err
	}
	memory := fasthttputil.NewInmemoryListener()
	served := make(chan error, 1)
	panics.Go(e.Panicked, func() {
		served <- srv.Serve(&transport.Listener{Listener: memory, Tenant: tenant})
	}, func() { close(served) })
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return memory.Dial() }, DisableCompression: true}
	c.HTTP = &http.Client{Transport: tr}
	return c, func() error {
		tr.CloseIdleConnections()
		grace, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		err := srv.Shutdown(grace)
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil // an abandoned question
		}
		_ = memory.Close()
		if err = errors.Join(err, <-served); err != nil {
			return fmt.Errorf("close: %w", err)
		}
		return nil
	}, nil
}
