package proxy

import (
	"cmp"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
)

// A Config is the configuration of a Server; New checks it.
type Config struct {
	Upstreams   map[string]Upstream
	Tenants     tenant.Tenants
	Concurrency int                  // requests served at once; more get a 503
	Connections int                  // clients' connections open at once; more get a 503. 0: the default of transport.ServerOptions
	Addresses   *transport.Addresses // counts connections by address; may be nil
	Timeouts    Timeouts
	Switch      *tenant.Switch // may lower the modes of policies; may be nil
	Budgets     *budget.Meter  // counts the usage of tenants; nil if nothing is limited
	Bodies      BodyKeeper     // gets the bodies of chats; may be nil
	Documents   CitedDocuments // looks up cited documents
	Planners    *Planners      // plan searches if policies ask for it; nil: no planning
	Outputs     StageOutputs   // caches the outputs of stages if policies ask for it; nil: no cache
	Tools       *RoundsKit     // runs tool calls of models if policies offer tools; nil: no tools

	raw struct{ clients, upstreams transport.Raw } // set by tests, to inject faults into connections
}

// Timeouts are the time limits of a Server. None of them limits the duration of a whole answer,
// which may be a stream. A zero field means the value of DefaultTimeouts.
type Timeouts struct {
	Connect     time.Duration // to the upstream, including TLS
	FirstByte   time.Duration // from the end of the request to the head of the answer
	Idle        time.Duration // between two reads of an answer
	ClientWrite time.Duration // a client that reads nothing is disconnected after this time, or at most twice this time
	ClientRead  time.Duration // for a request head, for each 256 KiB of a buffered body, and between two reads of a streamed body
	ClientIdle  time.Duration // of a kept-alive connection between requests
}

// DefaultTimeouts returns the default timeouts. FirstByte is ten minutes, as in official SDKs.
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
