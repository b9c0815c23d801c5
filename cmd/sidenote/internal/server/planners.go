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

// memoryShare is the part of cache.memory that plans may take beside it, and scores too.
const memoryShare = 32

// PlannerOptions are what planners are made of. All fields but Meter are required.
type PlannerOptions struct {
	Cache   config.Cache
	Meter   *budget.Meter // nil: nothing is reserved
	Metrics *report.Metrics
	Cached  func(cache.Event)
	Changed func(line string, bad bool)         // is told when an upstream stops answering, and when that is over
	Watch   func(name string, open func() bool) // shows whether an upstream is left alone
}

// Planners keeps the clients of the upstreams that planners, rerankers and graders ask, and plans. It
// is safe for concurrent use.
type Planners struct {
	options PlannerOptions

	mu      sync.Mutex
	memory  []*cache.Memory   // of plans and scores
	plans   *cache.Plans      // nil until there is a planner
	scores  *cache.Scores     // nil until there is a reranker
	clients map[string]client // by use and upstream, as in "planner/small": those in use
	watched []string
}

// A client is the client of an upstream, with what it was made of.
type client struct {
	of proxy.Upstream
	service
}

// A service is asked by planners, rerankers or graders: a services.LLM or a services.Reranker.
type service interface {
	Skips() bool
	Trouble() []string
	Close()
}

// NewPlanners returns Planners without any client.
func NewPlanners(o PlannerOptions) *Planners {
	return &Planners{options: o, clients: map[string]client{}}
}

// Of makes the planners, rerankers and graders of a configuration; nil where no policy has one. What
// only an earlier configuration asked stays open until keep is called.
func (p *Planners) Of(cfg *config.Config, models rewrite.Models) (made *proxy.Planners, keep func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[string]client{}
	keep = func() { p.keep(next) }
	asked, rerank, grade := config.PlannerUpstreams(cfg), config.RerankServices(cfg), config.GradeUpstreams(cfg)
	if len(asked)+len(rerank)+len(grade) == 0 {
		return nil, keep, nil
	}
	if err := p.open(len(asked) > 0, len(rerank)+len(grade) > 0); err != nil {
		return nil, nil, err
	}
	made = &proxy.Planners{
		Scorers: map[proxy.RerankService]proxy.Scorer{}, Judges: map[string]proxy.PlanUpstream{},
		Plans: p.plans, Scores: p.scores, Models: models, Meter: p.options.Meter,
		Used: func(tenant string, kind budget.Kind, tokens int64) {
			report.HelperUsed(p.options.Metrics, tenant, kind, tokens)
		},
	}
	upstreams := config.ProxyUpstreams(cfg)
	chats := func(use string, names map[string]bool) map[string]proxy.PlanUpstream {
		of := map[string]proxy.PlanUpstream{}
		for name := range names {
			u := upstreams[name]
			of[name] = proxy.PlanUpstream{API: p.chats(use, u, next), Base: u.BaseURL.String(), Own: proxy.OwnKey(u)}
		}
		return of
	}
	made.Upstreams, made.Graders = chats("planner", asked), chats("grade", grade)
	p.addRerankers(made, rerank, upstreams, next)
	return made, keep, nil
}

// chats returns the client of an upstream's models for a use, and adds it to next.
func (p *Planners) chats(use string, u proxy.Upstream, next map[string]client) *services.LLM {
	return clientOf(p, use, u, next, func() *services.LLM {
		return services.NewLLM(services.LLMOptions{
			Use: use, Name: u.Name, BaseURL: u.BaseURL, Dial: u.Dial.Context, TLS: u.Dial.TLS(u.BaseURL.Hostname()), Changed: p.options.Changed,
		})
	})
}

// open makes what plans and scores are remembered by, unless it is there.
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

// tier makes the memory of a cache.
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

// clientOf returns the client of an upstream for a use: the one in use, if it is reached in the same
// way and with the same key. It is added to next.
func clientOf[C service](p *Planners, use string, u proxy.Upstream, next map[string]client, open func() C) C {
	name := use + "/" + u.Name
	c, ok := p.clients[name]
	if made, same := c.service.(C); ok && same && c.of.BaseURL.String() == u.BaseURL.String() && c.of.Dial.Equal(u.Dial) && c.of.APIKey == u.APIKey {
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

// keep closes the clients that are not in next. Their calls under way go on.
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

// Trouble says what does not work at present, a line each.
func (p *Planners) Trouble() (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		lines = append(lines, c.Trouble()...)
	}
	slices.Sort(lines)
	return lines
}

// Close ends what runs in the background.
func (p *Planners) Close() error {
	p.keep(nil)
	var errs []error
	for _, memory := range p.memory {
		errs = append(errs, memory.Close())
	}
	return errors.Join(errs...)
}
