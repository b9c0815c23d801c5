package proxy

import (
	"cmp"
	"time"

	"sidenote/proxy/transport"
)

// A Config is all that a Server must know; New checks it.
type Config struct {
	Upstreams   map[string]Upstream
	Tenants     Tenants
	Concurrency int // requests at once; beyond it 503
	Connections int // of clients at once; beyond it 503. 0: as transport.ServerOptions has it
	Timeouts    Timeouts

	raw struct{ clients, upstreams transport.Raw } // of tests
}

// Timeouts fit streams: none of them bounds a whole answer. Zero ones are those
// of DefaultTimeouts.
type Timeouts struct {
	Connect     time.Duration // to the upstream, TLS included
	FirstByte   time.Duration // request sent to answer's head
	Idle        time.Duration // between two pieces of an answer
	ClientWrite time.Duration // a client that takes nothing of what is written, or twice that
	ClientRead  time.Duration // head of a request; each 256 KiB of a body that is read, between two pieces of one that streams
	ClientIdle  time.Duration // a kept-alive connection without a request
}

// DefaultTimeouts are those of PRODUCT.md §3: official SDKs wait ten minutes,
// and so do we.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Connect: 5 * time.Second, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute,
		ClientWrite: time.Minute, ClientRead: time.Minute, ClientIdle: 2 * time.Minute,
	}
}

func (t Timeouts) orDefaults() Timeouts {
	d := DefaultTimeouts()
	return Timeouts{
		Connect: cmp.Or(t.Connect, d.Connect), FirstByte: cmp.Or(t.FirstByte, d.FirstByte), Idle: cmp.Or(t.Idle, d.Idle),
		ClientWrite: cmp.Or(t.ClientWrite, d.ClientWrite), ClientRead: cmp.Or(t.ClientRead, d.ClientRead), ClientIdle: cmp.Or(t.ClientIdle, d.ClientIdle),
	}
}
