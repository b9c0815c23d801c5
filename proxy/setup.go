package proxy

import (
	"fmt"
	"reflect"
	"time"

	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// A setup is the part of the configuration that requests read. It is immutable: Reload replaces
// it, and a request keeps the setup that it began with.
type setup struct {
	tenants   *tenant.Directory
	upstreams map[string]*backend
	rewriter  *rewrite.Rewriter
	planners  *Planners    // nil: nothing is planned
	tools     *RoundsKit   // nil: no tools are offered
	outputs   StageOutputs // nil: none are cached
}

// A backend is a configured upstream with its client.
type backend struct {
	name    string
	client  *transport.Upstream
	of      clientConfig       // the configuration of client
	noUsage bool               // do not ask for the usage of its streams
	replace []transport.Header // header lines with Sidenote's key for the upstream; nil relays the client's credentials
}

// A clientConfig is the configuration of an upstream's client. Upstreams with equal clientConfigs
// can share a client.
type clientConfig struct {
	Upstream // without its key, which is sent with each request
	timeouts Timeouts
}

// equal reports whether c and d describe the same client.
func (c clientConfig) equal(d clientConfig) bool {
	same := c.Dial.Equal(d.Dial)
	c.Dial, d.Dial = transport.OutboundOptions{}, transport.OutboundOptions{}
	return same && reflect.DeepEqual(c, d)
}

// A retired is the client of an upstream that a reload removed or changed. Earlier requests may
// still use it. Each of its connections is closed when the answer on it has ended.
type retired struct {
	client *transport.Upstream
	since  time.Time
}

// retiredFor is how long a retired client is kept at least: longer than it takes to read the body
// of a request that may still use it. Shutdown closes the clients that are kept.
const retiredFor = time.Hour

// Reload replaces, all at once, the Rewriter by rw and these parts of the configuration by those of
// cfg: Upstreams, Tenants, Planners, Tools, Outputs, and the timeouts for upstreams. Earlier requests
// keep theirs. Other fields of cfg are ignored. After an error nothing has changed.
func (s *Server) Reload(cfg Config, rw *rewrite.Rewriter) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	old := s.setup.Load()
	next, err := s.newSetup(cfg, rw, old)
	if err != nil {
		return err
	}
	s.setup.Store(next)
	now, used := time.Now(), map[*transport.Upstream]bool{}
	for _, b := range next.upstreams {
		used[b.client] = true
	}
	kept := s.retired[:0:0]
	for _, r := range s.retired {
		if r.client.Busy() > 0 || now.Sub(r.since) < retiredFor {
			kept = append(kept, r)
		}
	}
	for _, b := range old.upstreams {
		if !used[b.client] {
			b.client.Retire()
			kept = append(kept, retired{b.client, now})
		}
	}
	s.retired = kept
	return nil
}

// newSetup checks cfg and returns its setup. It reuses the unchanged clients of old, which may be
// nil.
func (s *Server) newSetup(cfg Config, rw *rewrite.Rewriter, old *setup) (*setup, error) {
	next := &setup{tenants: tenant.NewDirectory(cfg.Tenants), upstreams: make(map[string]*backend, len(cfg.Upstreams)), rewriter: rw, planners: cfg.Planners, tools: cfg.Tools, outputs: cfg.Outputs}
	for name, u := range cfg.Upstreams {
		var before *backend
		if old != nil {
			before = old.upstreams[name]
		}
		b, err := s.newBackend(name, u, cfg.Timeouts.orDefaults(), before)
		if err != nil {
			return nil, err
		}
		next.upstreams[name] = b
	}
	for tenant, p := range next.tenants.Policies() {
		if next.upstreams[p.Upstream] == nil {
			return nil, fmt.Errorf("tenant %q: upstream %q is not configured", tenant, p.Upstream)
		}
		for _, s := range p.Stages.Stages {
			if s.Upstream != "" && next.upstreams[s.Upstream] == nil {
				return nil, fmt.Errorf("tenant %q: upstream %q of stage %q is not configured", tenant, s.Upstream, s.Name)
			}
		}
	}
	return next, checkBudgets(next.tenants.Policies(), s.budgets)
}

func (s *Server) newBackend(name string, u Upstream, t Timeouts, before *backend) (*backend, error) {
	t.ClientRead, t.ClientWrite, t.ClientIdle = s.timeouts.ClientRead, s.timeouts.ClientWrite, s.timeouts.ClientIdle
	of := clientConfig{u, t}
	of.APIKey = Secret{}
	if before != nil && before.of.equal(of) {
		return &backend{name: name, client: before.client, of: of, noUsage: u.NoUsageOption, replace: keyHeaders(u)}, nil
	}
	client, err := transport.NewUpstream(transport.Config{
		BaseURL: u.BaseURL, Dial: u.Dial,
		Connect: t.Connect, FirstByte: t.FirstByte, Idle: t.Idle,
		ClientRead: t.ClientRead, ClientWrite: t.ClientWrite,
		Panicked: s.panicked, Raw: s.raw,
	})
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", name, err)
	}
	return &backend{name: name, client: client, of: of, noUsage: u.NoUsageOption, replace: keyHeaders(u)}, nil
}

// closeClients closes the connections to all upstreams.
func (s *Server) closeClients() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	for _, b := range s.setup.Load().upstreams {
		b.client.Close()
	}
	for _, r := range s.retired {
		r.client.Close()
	}
}
