package proxy

import (
	"cmp"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/cited"
	"sidenote/proxy/planning"
	"sidenote/proxy/rounds"
	"sidenote/proxy/stages"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
)

// A Config is the configuration of a Server; New checks it.
type Config struct {
	Upstreams   map[string]Upstream
	Tenants     Tenants
	Concurrency int                  // requests served at once; more get a 503
	Connections int                  // clients' connections open at once; more get a 503. 0: the default of transport.ServerOptions
	Addresses   *transport.Addresses // counts these by address; nil: nothing does
	Timeouts    Timeouts
	Switch      *tenant.Switch     // may lower the modes of policies; nil: nothing does
	Budgets     *budget.Meter      // counts what tenants use; nil if nothing is limited
	Bodies      BodyKeeper         // is shown the bodies of chats; nil: nobody is
	Documents   cited.Documents    // of which citations are checked
	Planners    *planning.Planners // plan what is searched, where policies want it; nil: nothing is planned
	Outputs     stages.Outputs     // remembers what stages said, where policies want that; nil: nothing is remembered
	Tools       *rounds.Kit        // answers the calls of models, where policies offer them tools; nil: none are offered

	raw struct{ clients, upstreams transport.Raw } // set by tests, to inject faults into connections
}

// Timeouts fit streams: none of them bounds the time of a whole answer. A zero value
// stands for the one of DefaultTimeouts.
type Timeouts struct {
	Connect     time.Duration // to the upstream, TLS included
	FirstByte   time.Duration // from the end of the request to the head of the answer
	Idle        time.Duration // between two pieces of an answer
	ClientWrite time.Duration // a client that takes no byte is cut after this time, at most twice this time
	ClientRead  time.Duration // for the head of a request, for each 256 KiB of a body that is read whole, between two pieces of a body that is streamed
	ClientIdle  time.Duration // of a kept-alive connection without a request
}

// DefaultTimeouts are long for answers, as official SDKs wait ten minutes,
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
