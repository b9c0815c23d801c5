package mcp

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve serves one caller over in and out until in or ctx ends. Requests received before in ends
// are answered.
func (k *Knowledge) Serve(ctx context.Context, c *Caller, in io.Reader, out io.Writer) error {
	stream := &sdk.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{out}, MaxLineLength: maxBody}
	err := k.server(func(*sdk.RequestExtra) *Caller { return c }, nil).Run(ctx, &pipe{stream: stream, answered: make(chan struct{}, 1)})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

type nopCloser struct{ io.Writer }

// Close implements io.Closer.
func (nopCloser) Close() error { return nil }

// lastWait is how long a pipe whose input has ended waits for answers.
const lastWait = 30 * time.Second

// A pipe reports its end only when all calls are answered, because the SDK drops unanswered ones.
type pipe struct {
	stream sdk.Transport
	sdk.Connection
	calls    atomic.Int64  // calls without an answer
	answered chan struct{} // gets a value after each attempt to answer
	broken   atomic.Bool   // writing has failed
}

// Connect implements sdk.Transport.
func (p *pipe) Connect(ctx context.Context) (_ sdk.Connection, err error) {
	p.Connection, err = p.stream.Connect(ctx)
	return p, err
}

// Read implements sdk.Connection.
func (p *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := p.Connection.Read(ctx)
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		p.calls.Add(1)
	}
	if !errors.Is(err, io.EOF) {
		return msg, err
	}
	wait := time.NewTimer(lastWait)
	defer wait.Stop()
	for p.calls.Load() > 0 && !p.broken.Load() {
		select {
		case <-p.answered:
		case <-ctx.Done():
			return nil, err
		case <-wait.C:
			return nil, err
		}
	}
	return nil, err
}

// Write implements sdk.Connection.
func (p *pipe) Write(ctx context.Context, msg jsonrpc.Message) error {
	err := p.Connection.Write(ctx, msg)
	if err != nil {
		p.broken.Store(true)
	}
	if _, ok := msg.(*jsonrpc.Response); ok {
		p.calls.Add(-1)
		select {
		case p.answered <- struct{}{}:
		default:
		}
	}
	return err
}
