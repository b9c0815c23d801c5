package server

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"sidenote/cache"
	"sidenote/cache/budget"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
)

// memoryShare is the divisor of cache.memory that gives the memory of the plans cache, and of the
// scores cache; both are in addition to it.
const memoryShare = 32

// PlannerOptions are the dependencies of Planners. All fields but Meter are required.
type PlannerOptions struct {
	Cache   config.Cache
	Meter   *budget.Meter // nil: no budget is reserved
	Metrics *report.Metrics
	Cached  func(cache.Event)
	Changed func(line string, bad bool)         // told when an upstream fails and recovers
	Watch   func(name string, open func() bool) // exports whether an upstream is skipped
}

// Planners hold the clients of the upstreams for planning, reranking and grading, and the caches
// of plans and scores. They are safe for concurrent use.
type Planners struct {
	options PlannerOptions

	mu      sync.Mutex
	memory  []*cache.Memory   // caches of plans and scores
	plans   *cache.Plans      // nil without planners
	scores  *cache.Scores     // nil without rerankers and graders
	clients map[string]client // by use and upstream, as in "planner/small"
	watched []string
}

// A client is an upstream's client and the settings it was made from.
type client struct {
	of proxy.Upstream
	service
}

// A service is a client for planners, rerankers or graders: a services.LLM or services.Reranker.
type service interface {
	Skips() bool
	Trouble() []string
	Close()
}

// NewPlanners returns Planners without clients.
func NewPlanners(o PlannerOptions) *Planners {
	return &Planners{options: o, clients: map[string]client{}}
}

// Of returns the planners, rerankers, graders and counters of tokens of a configuration, or nil if it
// has none.
// Clients that only an earlier configuration used stay open until keep is called.
func (p *Planners) Of(cfg *config.Config, models rewrite.Models) (made *proxy.Planners, keep func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[string]client{}
	keep = func() { p.keep(next) }
	asked, rerank, grade, count := config.PlannerUpstreams(cfg), config.RerankServices(cfg), config.GradeUpstreams(cfg), config.CountUpstreams(cfg)
	if len(asked)+len(rerank)+len(grade)+len(count) == 0 {
		return nil, keep, nil
	}
	if err := p.open(len(asked) > 0, len(rerank)+len(grade) > 0); err != nil {
		return nil, nil, err
	}
	made = &proxy.Planners{
		Scorers: map[proxy.RerankService]proxy.Scorer{}, Judges: map[string]proxy.PlanUpstream{},
		Plans: p.plans, Scores: p.scores, Models: models, Meter: p.options.Meter,
		OnUsage: func(tenant string, kind budget.Kind, tokens int64) {
			report.HelperUsed(p.options.Metrics, tenant, kind, tokens)
		},
	}
	upstreams := config.ProxyUpstreams(cfg)
	chats := func(use string, names map[string]bool) map[string]proxy.PlanUpstream {
		of := map[string]proxy.PlanUpstream{}
		for name := range names {
			u := upstreams[name]
			of[name] = proxy.PlanUpstream{API: p.chats(use, u, next), Base: u.BaseURL.String(), OwnHeader: proxy.OwnKey(u)}
		}
		return of
	}
	made.Upstreams, made.Graders = chats("planner", asked), chats("grade", grade)
	made.Counters = map[string]proxy.CountUpstream{}
	for name := range count {
		u := upstreams[name]
		made.Counters[name] = proxy.CountUpstream{API: p.chats("count_tokens", u, next), OwnHeader: proxy.OwnKey(u)}
	}
	p.addRerankers(made, rerank, upstreams, next)
	return made, keep, nil
}

// chats returns the LLM client of an upstream for a use, and adds it to next.
func (p *Planners) chats(use string, u proxy.Upstream, next map[string]client) *services.LLM {
	return clientOf(p, use, u, next, func() *services.LLM {
		return services.NewLLM(services.LLMOptions{
			Use: use, Name: u.Name, BaseURL: u.BaseURL, Dial: u.Dial.DialContext, TLS: u.Dial.TLS(u.BaseURL.Hostname()), Others: config.ServiceBases(u.Others), Changed: p.options.Changed,
		})
	})
}

// open creates the caches of plans and scores that are needed and do not exist.
func (p *Planners) open(plans, scores bool) error {
	if plans && p.plans == nil {
		tier, err := p.tier(cache.Planned)
		if err != nil {
			return err
		}
		p.plans = cache.NewPlans(tier, p.options.Cached)
	}
	if scores && p.scores == nil {
		tier, err := p.tier(cache.Scored)
		if err != nil {
			return err
		}
		p.scores = cache.NewScores(tier, p.options.Cached)
	}
	return nil
}

// tier creates an in-memory cache.
func (p *Planners) tier(kind cache.Kind) (cache.Tier, error) {
	local := p.options.Cache
	memory, err := cache.NewMemory(max(int64(local.Memory)/memoryShare, 1))
	if err != nil {
		return cache.Tier{}, fmt.Errorf("make cache of %s: %w", kind, err)
	}
	p.memory = append(p.memory, memory)
	p.options.Metrics.Watch("cache_bytes", "Bytes held by a cache.", map[string]string{"cache": string(kind)}, false,
		func() float64 { return float64(memory.Bytes()) })
	return cache.Tier{Name: "memory", Store: memory, TTL: local.TTL, EmptyTTL: local.EmptyTTL}, nil
}

// clientOf returns the client of an upstream for a use, reusing the existing one if its address,
// dialer and key are unchanged. It adds the client to next.
func clientOf[C service](p *Planners, use string, u proxy.Upstream, next map[string]client, open func() C) C {
	name := use + "/" + u.Name
	c, ok := p.clients[name]
	if made, same := c.service.(C); ok && same && c.of.BaseURL.String() == u.BaseURL.String() && c.of.Dial.Equal(u.Dial) && c.of.APIKey == u.APIKey && slices.EqualFunc(c.of.Others, u.Others, proxy.UpstreamBase.Equal) {
		next[name] = c
		return made
	}
	if !slices.Contains(p.watched, name) {
		p.watched = append(p.watched, name)
		p.options.Watch(name, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			c, ok := p.clients[name]
			return ok && c.Skips()
		})
	}
	made := open()
	next[name] = client{u, made}
	return made
}

// keep closes the clients that are not in next. Their calls in flight continue.
func (p *Planners) keep(next map[string]client) {
	p.mu.Lock()
	old := p.clients
	p.clients = next
	p.mu.Unlock()
	for name, c := range old {
		if next[name].service != c.service {
			c.Close()
		}
	}
}

// Trouble lists the current problems, a line each.
func (p *Planners) Trouble() (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		lines = append(lines, c.Trouble()...)
	}
	slices.Sort(lines)
	return lines
}

// Close closes the clients and caches.
func (p *Planners) Close() error {
	p.keep(nil)
	var errs []error
	for _, memory := range p.memory {
		errs = append(errs, memory.Close())
	}
	return errors.Join(errs...)
}
