// Package client has the clients of a Sidenote: Admin, of the knowledge on its admin port, and
// Chat, which asks a question of a proxy in this process and follows the answer. They see and send
// nothing that an app could not.
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

// closeGrace is how long an answer may go on that nobody reads any more.
const closeGrace = 100 * time.Millisecond

// OpenChat serves the data port of an engine to one client, as a caller of a tenant, until it is
// closed. The port is in memory: on one of the machine, anybody there could ask without a key.
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
			err = nil // a question that was given up
		}
		_ = memory.Close()
		if err = errors.Join(err, <-served); err != nil {
			return fmt.Errorf("close: %w", err)
		}
		return nil
	}, nil
}
