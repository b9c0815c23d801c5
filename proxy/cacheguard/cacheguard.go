// Package cacheguard finds out whether adding sources breaks the prompt cache of an upstream. For
// each upstream and model it compares how much of a prompt was read from the cache where sources
// were added with how much is read where nothing was added. It knows neither HTTP nor policies: it
// is given observations, which have their own times.
//
// Only a request counts that repeats the whole prompt of an earlier one, and soon enough for that
// to be cached still. So conversations that an application changes or resumes after a pause are
// evidence of nothing, nor are first turns.
package cacheguard

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Margin is by how much the cached share of prompts must be lower than expected: 20 points.
	Margin = 0.2
	// MinRequests is how many requests with sources must have been compared before a finding.
	MinRequests = 50
	// MinControls is how many requests without sources are enough to expect their hits. With fewer,
	// AssumedHit is expected.
	MinControls = 30
	// AssumedHit is the part of a repeated prompt that is expected to be read from the cache where
	// nothing is there to compare with. Vendors promise no hits: requests reach a machine that has
	// not seen the prompt, full machines evict it, and prefixes match in steps or by whole messages.
	AssumedHit = 0.7
	// MinCached is the smallest repeated prompt that counts, in tokens: the least that vendors cache.
	MinCached = 1024
	// Lifetime is how long a prompt counts as cached after it was sent. The shortest documented
	// lifetime is 5 minutes.
	Lifetime = 4 * time.Minute
	// Recovery is for how long, and RecoveryRequests for how many requests, shares must have been
	// within half of Margin before a warning may be repeated.
	Recovery         = 30 * time.Minute
	RecoveryRequests = 100

	cacheStep = 128 // tokens; prefixes match in such steps
	maxArms   = 8   // placements of one upstream and model
	maxKeys   = 4096
)

// A Key names an upstream and a row of its model table.
type Key struct {
	Upstream string `json:"upstream"`
	Model    string `json:"model"`
}

// An Observation is one answered request.
type Observation struct {
	Time      time.Time // when the request was read
	Prompt    Prompt    // as the application sent it
	Placement string    // of what was added; "" if nothing was

	Input   int64 // tokens of the prompt, including Added
	Cached  int64 // of Input: read from the cache
	Written int64 // of Input: written to the cache
	Added   int64 // of Input: added by Sidenote
	Told    bool  // the answer told the cached tokens, maybe 0

	Least  int64 // fewest tokens that the upstream caches, if more than MinCached
	Caches bool  // the model is known to have a prompt cache
	Marked bool  // only what is marked is cached, so that Cached and Written tell what a later request can read

	Mend      string // placement that would keep the cache; "" if none is known
	MaySwitch bool   // the policy lets the guard change the placement to Mend
	Auto      string // what placement auto is for the model, for people
}

// A State says what was found for a Key.
type State int

// The states.
const (
	Fine     State = iota
	Warned         // the cached share is lower with sources
	Switched       // so requests whose policies allow it have another placement
)

// String returns the name of the state.
func (s State) String() string { return [...]string{"fine", "warned", "switched"}[s] }

// MarshalText returns the name of the state.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Finding says that the cached share of requests with sources is too low.
type Finding struct {
	Key
	Switched  bool   // the placement is changed from now on where policies allow it
	Placement string // of the requests with sources
	Mend      string // the placement that keeps the cache; "" if none is known
	Comparison
}

// A Comparison holds the figures of requests with sources.
type Comparison struct {
	Share    float64 `json:"cached_share"`   // mean cached share of their prompts, without what was added
	Expected float64 `json:"expected_share"` // the share if as much of what they repeat had been cached as elsewhere
	Requests int     `json:"requests"`       // compared
	Controls int     `json:"controls"`       // requests without sources whose hits are expected; 0: AssumedHit is
}

// A Status is what is known of a Key.
type Status struct {
	Key
	State     State  `json:"state"`
	Placement string `json:"placement"` // with the lowest share beside what is expected of it
	Auto      string `json:"auto"`      // what placement auto is, or would be
	Comparison
}

// Decided reports whether enough requests were compared for State to say something.
func (s Status) Decided() bool { return s.State != Fine || s.Requests >= MinRequests }

// A Guard compares the observations of one configuration. It is safe for concurrent use.
type Guard struct {
	seed  maphash.Seed
	turns turns

	mu     sync.Mutex
	models map[Key]*model

	moved atomic.Pointer[map[Key]bool] // keys in state Warned or Switched because of a placement that can be changed; never modified
}

// New returns a Guard without observations.
func New() *Guard { return &Guard{seed: maphash.MakeSeed(), models: map[Key]*model{}} }

// Broken reports whether the placement of requests should change. It takes no lock.
func (g *Guard) Broken(of Key) bool {
	moved := g.moved.Load()
	return moved != nil && (*moved)[of]
}

// AnyBroken reports whether Broken is true of any key.
func (g *Guard) AnyBroken() bool {
	moved := g.moved.Load()
	return moved != nil && len(*moved) > 0
}

// Observe adds an observation. It returns a Finding if there is one that was not told yet.
func (g *Guard) Observe(of Key, o *Observation) (Finding, bool) {
	added := max(o.Added, 0)
	prompt := o.Input - added
	if !o.Told || o.Prompt.parts == 0 || prompt <= 0 || o.Cached < 0 || o.Cached > o.Input {
		return Finding{}, false
	}
	carries := o.Placement != ""
	before, repeats := g.turns.swap(&o.Prompt, turn{at: o.Time, held: o.held(prompt), carries: carries})
	held := before.held / cacheStep * cacheStep
	if !repeats || before.held < max(MinCached, o.Least) || held > prompt || !carries && before.carries {
		return Finding{}, false
	}
	m := g.model(of)
	if m == nil {
		return Finding{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.observe(o, float64(held)/float64(prompt), min(float64(o.Cached)/float64(prompt), 1))
	if moves := m.moves(); moves != m.published {
		m.published = moves
		g.publish(of, moves)
	}
	found.Key = of
	return found, ok
}

// held returns how many tokens of the prompt the next request can read from the cache, if it
// repeats the prompt without what was added.
func (o *Observation) held(prompt int64) int64 {
	if !o.Marked {
		return prompt
	}
	return min(o.Cached+max(o.Written, 0), prompt)
}

// model returns the state of a key; nil if there are too many keys.
func (g *Guard) model(of Key) *model {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.models[of]
	if m == nil && len(g.models) < maxKeys {
		m = &model{arms: map[string]*arm{}}
		g.models[of] = m
	}
	return m
}

func (g *Guard) publish(of Key, moves bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := map[Key]bool{}
	if before := g.moved.Load(); before != nil {
		for key := range *before {
			next[key] = true
		}
	}
	if delete(next, of); moves {
		next[of] = true
	}
	g.moved.Store(&next)
}

// Status returns what is known of each key with requests with sources, by upstream and model.
func (g *Guard) Status() []Status {
	g.mu.Lock()
	models := make(map[Key]*model, len(g.models))
	for key, m := range g.models {
		models[key] = m
	}
	g.mu.Unlock()
	var all []Status
	for key, m := range models {
		m.mu.Lock()
		if s, ok := m.status(); ok {
			s.Key = key
			all = append(all, s)
		}
		m.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Model, b.Model))
	})
	return all
}

// A model holds the observations of one key.
type model struct {
	mu        sync.Mutex
	caches    bool // the upstream is known to cache prompts of the model
	hits      mean // of requests without sources: the part of what they repeat that was cached
	arms      map[string]*arm
	switched  bool
	published bool
	auto      string
	newest    string // placement of the last request with sources
}

// moves reports whether requests should get another placement.
func (m *model) moves() bool {
	if m.switched {
		return true
	}
	for _, a := range m.arms {
		if a.told && a.mayMove {
			return true
		}
	}
	return false
}

// observe adds an observation. held is the part of the prompt that an earlier request sent, share
// the part that was cached.
func (m *model) observe(o *Observation, held, share float64) (Finding, bool) {
	m.auto = o.Auto
	if m.caches = m.caches || o.Caches || o.Cached > 0; !m.caches {
		return Finding{}, false
	}
	if o.Placement == "" {
		m.hits.add(o.Time, min(share/held, 1))
		return Finding{}, false
	}
	a := m.arms[o.Placement]
	if a == nil {
		if len(m.arms) == maxArms {
			return Finding{}, false
		}
		a = new(arm)
		m.arms[o.Placement] = a
	}
	hit := AssumedHit
	a.controls = int(m.hits.weightAt(o.Time))
	if a.controls >= MinControls {
		hit = m.hits.lower()
	} else {
		a.controls = 0
	}
	a.mayMove = o.Mend != ""
	m.newest = o.Placement
	alarm := a.add(o.Time, share, held*hit)
	found := Finding{Placement: o.Placement, Mend: o.Mend, Comparison: a.changed()}
	switch {
	case a.mayMove && o.MaySwitch && !m.switched && (alarm || a.told):
		a.told, m.switched, found.Switched = true, true, true
		return found, true
	case alarm && !a.told:
		a.told = true
		return found, !m.switched || !a.mayMove
	}
	return Finding{}, false
}

// status returns the status by the worst placement or, once it is changed, by the newest.
func (m *model) status() (s Status, ok bool) {
	for placement, a := range m.arms {
		if a.told {
			s.State = max(s.State, Warned)
		}
		if m.switched && placement != m.newest {
			continue
		}
		c := a.lately()
		if gap, most := c.Expected-c.Share, s.Expected-s.Share; !ok || gap > most || gap == most && placement < s.Placement {
			s.Placement, s.Comparison, ok = placement, c, true
		}
	}
	if m.switched {
		s.State = Switched
	}
	s.Auto = m.auto
	return s, ok
}
