// Package planners makes the planners of a configuration: who asks the models, and the plans
// that are remembered.
package planners

import (
	"fmt"
	"slices"
	"sync"

	"sidenote/cache"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/proxy/meter"
	"sidenote/proxy/metrics"
	"sidenote/proxy/planning"
	"sidenote/retrieval/llm"
	"sidenote/rewrite"
)

// memoryShare is the part of cache.memory that plans may take beside it.
const memoryShare = 32

// Options are what planners are made of. All fields but Meter are required.
type Options struct {
	Cache   config.Cache
	Meter   *meter.Meter // nil: nothing is reserved
	Metrics *metrics.Metrics
	Cached  func(cache.Event)
	Changed func(line string, bad bool)         // is told when an upstream stops answering, and when that is over
	Watch   func(name string, open func() bool) // shows whether an upstream is left alone
}

// Planners keeps the clients of the upstreams that planners ask, and their plans. It is safe for
// concurrent use.
type Planners struct {
	options Options

	mu      sync.Mutex
	memory  *cache.Memory // nil until there is a planner
	plans   *cache.Plans
	clients map[string]client // by upstream: those in use
	watched []string
}

// A client is the client of an upstream, with what it was made of.
type client struct {
	of proxy.Upstream
	*llm.Client
}

// New returns Planners without any client.
func New(o Options) *Planners { return &Planners{options: o, clients: map[string]client{}} }

// Of makes the planners of a configuration; nil where no policy has one. What only an earlier
// configuration asked stays open until keep is called.
func (p *Planners) Of(cfg *config.Config, models rewrite.Models) (made *planning.Planners, keep func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[string]client{}
	keep = func() { p.keep(next) }
	asked := config.PlannerUpstreams(cfg)
	if len(asked) == 0 {
		return nil, keep, nil
	}
	if p.plans == nil {
		if err := p.openPlans(); err != nil {
			return nil, nil, err
		}
	}
	made = &planning.Planners{
		Upstreams: map[string]planning.Upstream{}, Plans: p.plans, Models: models, Meter: p.options.Meter,
		Used: func(tenant string, tokens int64) { metrics.PlannerUsed(p.options.Metrics, tenant, tokens) },
	}
	for name, u := range config.ProxyUpstreams(cfg) {
		if asked[name] {
			next[name] = p.clientOf(name, u)
			made.Upstreams[name] = planning.Upstream{API: next[name].Client, Base: u.BaseURL.String(), Own: proxy.OwnKey(u)}
		}
	}
	return made, keep, nil
}

// openPlans makes the memory of plans.
func (p *Planners) openPlans() (err error) {
	local := p.options.Cache
	if p.memory, err = cache.NewMemory(max(int64(local.Memory)/memoryShare, 1)); err != nil {
		return fmt.Errorf("make cache of plans: %w", err)
	}
	p.options.Metrics.Watch("cache_bytes", "Bytes held by a cache.", map[string]string{"cache": string(cache.Planned)}, false,
		func() float64 { return float64(p.memory.Bytes()) })
	tier := cache.Tier{Name: "memory", Store: p.memory, TTL: local.TTL, EmptyTTL: local.EmptyTTL}
	p.plans = cache.NewPlans(tier, p.options.Cached)
	return nil
}

// clientOf returns the client of an upstream: the one in use, if it is reached in the same way.
func (p *Planners) clientOf(name string, u proxy.Upstream) client {
	c, ok := p.clients[name]
	if ok && c.of.BaseURL.String() == u.BaseURL.String() && c.of.Dial.Equal(u.Dial) {
		return c
	}
	if !slices.Contains(p.watched, name) {
		p.watched = append(p.watched, name)
		p.options.Watch("planner/"+name, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			c, ok := p.clients[name]
			return ok && c.Skips()
		})
	}
	return client{u, llm.New(llm.Options{
		Use: "planner", Name: name, BaseURL: u.BaseURL, Dial: u.Dial.Context, TLS: u.Dial.TLS(u.BaseURL.Hostname()), Changed: p.options.Changed,
	})}
}

// keep closes the clients that are not in next. Their calls under way go on.
func (p *Planners) keep(next map[string]client) {
	p.mu.Lock()
	old := p.clients
	p.clients = next
	p.mu.Unlock()
	for name, c := range old {
		if next[name].Client != c.Client {
			c.Close()
		}
	}
}

// Trouble says what does not work at present, a line each.
func (p *Planners) Trouble() (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		lines = append(lines, c.Client.Trouble()...)
	}
	slices.Sort(lines)
	return lines
}

// Close ends what runs in the background.
func (p *Planners) Close() error {
	p.keep(nil)
	if p.memory == nil {
		return nil
	}
	return p.memory.Close()
}
