package cacheguard_test

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sidenote/proxy/cacheguard"
)

// A traffic generates the requests of conversations and what an upstream with a prompt cache bills
// for them.
type traffic struct {
	random *rand.Rand
	now    time.Time
	open   queue
	begun  int

	apps    []app
	rate    time.Duration // mean time between two conversations
	system  int           // tokens of the system prompt
	answer  int           // mean tokens of an answer
	idle    float64       // share of turns that come after a pause longer than the lifetime
	miss    float64       // share of requests that reach a machine without the prompt
	whole   bool          // only whole messages match
	marked  bool          // only what ended at a mark matches; the app marks the end of its last message
	noCache bool          // nothing is ever cached
	systems map[int]time.Time
	scratch []byte
}

// An app is an application with its policy.
type app struct {
	placement string  // "" adds nothing
	found     float64 // share of requests for which something is found
	breaks    bool    // what is added is placed before the conversation, as the placement system does
	stamps    bool    // the application itself changes the beginning of each prompt
}

const (
	lifetime = 5 * time.Minute
	block    = 1500 // tokens that are added
)

// A segment is a piece of a prompt. Equal segments have equal text.
type segment struct {
	kind   byte // of system, questions, answers, sources or time
	of, at int  // the app or conversation, and the turn
	tokens int
}

func (s segment) append(b []byte) []byte {
	b = append(b, s.kind)
	for _, n := range []int{s.of, s.at, s.tokens} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// A conversation is one of an app.
type conversation struct {
	id, app, turns int
	next           time.Time
	messages       [][]segment // as the app sends them
	sent           [][]segment // the last request as it was sent
	at             time.Time   // of the last request
}

type queue []*conversation

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*conversation)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newTraffic(seed uint64, apps ...app) *traffic {
	return &traffic{
		random: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), apps: apps,
		rate: 20 * time.Second, system: 300, answer: 600, idle: 0.1, miss: 0.1, systems: map[int]time.Time{},
	}
}

func (t *traffic) wait(mean time.Duration) time.Duration {
	return time.Duration(t.random.ExpFloat64() * float64(mean))
}

// next returns the next request.
func (t *traffic) next(g *cacheguard.Guard) *cacheguard.Observation {
	for len(t.open) == 0 || t.open[0].next.After(t.now) {
		if len(t.open) > 0 && t.open[0].next.Before(t.now.Add(t.rate)) {
			t.now = t.open[0].next
			break
		}
		t.now = t.now.Add(t.wait(t.rate))
		t.begun++
		c := &conversation{id: t.begun, app: t.random.IntN(len(t.apps)), turns: 1 + t.random.IntN(14), next: t.now}
		c.messages = [][]segment{{{'s', c.app, 0, t.system}}}
		heap.Push(&t.open, c)
	}
	c := heap.Pop(&t.open).(*conversation)
	o := t.request(g, c)
	if c.turns--; c.turns > 0 {
		c.next = t.now.Add(t.wait(40 * time.Second))
		if t.random.Float64() < t.idle {
			c.next = t.now.Add(lifetime + t.wait(30*time.Minute))
		}
		heap.Push(&t.open, c)
	}
	return o
}

func (t *traffic) request(g *cacheguard.Guard, c *conversation) *cacheguard.Observation {
	a, turn := t.apps[c.app], len(c.messages)
	if a.stamps {
		c.messages[0] = []segment{{'t', int(t.now.UnixNano()), 0, 10}, {'s', c.app, 0, t.system}}
	}
	c.messages = append(c.messages, []segment{{'q', c.id, turn, 20 + t.random.IntN(300)}})
	o := &cacheguard.Observation{Time: t.now, Told: true, Caches: true}
	g.Extend(&o.Prompt, []byte{byte(c.app)})
	for _, m := range c.messages {
		t.scratch = t.scratch[:0]
		for _, s := range m {
			t.scratch = s.append(t.scratch)
			o.Input += int64(s.tokens)
		}
		g.Extend(&o.Prompt, t.scratch)
	}
	sent := append([][]segment(nil), c.messages...)
	if a.placement != "" && t.random.Float64() < a.found {
		at := len(sent) - 1
		if a.breaks {
			at = 0
		}
		sent[at] = append(append([]segment(nil), sent[at]...), segment{'b', c.id, turn, block})
		o.Placement, o.Added = a.placement, block
		o.Input += block
	}
	if o.Cached = int64(t.cached(c, sent)); t.marked {
		o.Marked, o.Written = true, int64(t.tokens(t.toMark(sent)))-o.Cached
	}
	c.sent, c.at = sent, t.now
	t.systems[c.app] = t.now
	c.messages = append(c.messages, []segment{{'a', c.id, turn, 50 + int(t.random.ExpFloat64()*float64(t.answer))}})
	return o
}

// toMark returns a request up to its mark, which is before sources in the last message.
func (t *traffic) toMark(sent [][]segment) [][]segment {
	last := len(sent) - 1
	return append(append([][]segment(nil), sent[:last]...), sent[last][:1])
}

func (t *traffic) tokens(sent [][]segment) (n int) {
	for _, m := range sent {
		for _, s := range m {
			n += s.tokens
		}
	}
	return n
}

// cached returns how many tokens of a request are read from the cache.
func (t *traffic) cached(c *conversation, sent [][]segment) int {
	if t.noCache || t.random.Float64() < t.miss {
		return 0
	}
	n := 0
	if t.now.Sub(c.at) <= lifetime {
		n = t.common(c.sent, sent)
	}
	if t.marked {
		if c.sent == nil || n < t.tokens(t.toMark(c.sent)) {
			return 0
		}
		return t.tokens(t.toMark(c.sent))
	}
	if t.now.Sub(t.systems[c.app]) <= lifetime {
		n = max(n, t.common([][]segment{{sent[0][0]}}, sent))
	}
	if n < 1024 {
		return 0
	}
	if !t.whole {
		n = n / 128 * 128
	}
	return n
}

// common returns the tokens of the common prefix of two requests.
func (t *traffic) common(a, b [][]segment) (n int) {
	for i := range min(len(a), len(b)) {
		whole, same := 0, len(a[i]) == len(b[i])
		for k := range min(len(a[i]), len(b[i])) {
			if a[i][k] != b[i][k] {
				same = false
				break
			}
			whole += b[i][k].tokens
		}
		if same || !t.whole {
			n += whole
		}
		if !same {
			break
		}
	}
	return n
}

// A finding is a Finding and when it was returned.
type finding struct {
	cacheguard.Finding
	requests, carrying int // until then
}

var upstream = cacheguard.Key{Upstream: "openai", Model: "gpt-5*"}

// observe gives g that many requests and returns the findings. Sources of the placement system may
// be moved.
func (t *traffic) observe(g *cacheguard.Guard, requests int, maySwitch bool) (all []finding) {
	carrying := 0
	for n := range requests {
		o := t.next(g)
		if o.Placement != "" {
			carrying++
		}
		if o.Placement == "system" {
			o.Mend, o.MaySwitch = "split", maySwitch
		}
		if f, ok := g.Observe(upstream, o); ok {
			all = append(all, finding{f, n + 1, carrying})
		}
	}
	return all
}

func seeds(t *testing.T) (seeds uint64, requests int) {
	if testing.Short() {
		return 1, 10_000
	}
	return 5, 100_000
}

// Adding what breaks no cache is never found to break it, whatever the traffic.
func TestHealthyCachesAreNotFound(t *testing.T) {
	off := app{}
	healthy, split := app{placement: "system", found: 0.9}, app{placement: "split", found: 0.9}
	for name, shape := range map[string]struct {
		apps   []app
		change func(*traffic)
	}{
		"alike":                     {[]app{off, healthy}, nil},
		"split":                     {[]app{off, split}, nil},
		"nothing to compare with":   {[]app{healthy}, nil},
		"split alone":               {[]app{split}, nil},
		"whole messages":            {[]app{split, off, healthy}, func(t *traffic) { t.whole = true }},
		"whole messages alone":      {[]app{split}, func(t *traffic) { t.whole = true }},
		"marks":                     {[]app{off, split, healthy}, func(t *traffic) { t.marked = true }},
		"marks alone":               {[]app{split}, func(t *traffic) { t.marked = true }},
		"long pauses":               {[]app{healthy, split}, func(t *traffic) { t.idle = 0.7 }},
		"short prompts":             {[]app{split}, func(t *traffic) { t.system, t.answer = 20, 60 }},
		"many misses":               {[]app{healthy}, func(t *traffic) { t.miss = 0.4 }},
		"most miss":                 {[]app{off, healthy}, func(t *traffic) { t.miss = 0.8 }},
		"few requests":              {[]app{off, healthy}, func(t *traffic) { t.rate = 30 * time.Minute }},
		"the app changes prompts":   {[]app{off, {placement: "system", found: 1, breaks: true, stamps: true}}, nil},
		"nothing is found at times": {[]app{{placement: "split", found: 0.7}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			most, requests := seeds(t)
			for seed := range most {
				sim, g := newTraffic(seed, shape.apps...), cacheguard.New()
				if shape.change != nil {
					shape.change(sim)
				}
				if found := sim.observe(g, requests, true); len(found) > 0 {
					t.Errorf("seed %d: %+v", seed, found[0])
				}
				if testing.Verbose() {
					t.Logf("seed %d: %+v", seed, g.Status())
				}
			}
		})
	}
}

// Sources that break the cache are found within 300 requests, from the start and later.
func TestBrokenCachesAreFound(t *testing.T) {
	off, broken := app{}, app{placement: "system", found: 0.9, breaks: true}
	for name, shape := range map[string]struct {
		apps   []app
		change func(*traffic)
	}{
		"half of the requests":    {[]app{off, broken}, nil},
		"nothing to compare with": {[]app{broken}, nil},
		"whole messages":          {[]app{off, broken}, func(t *traffic) { t.whole = true }},
		"marks":                   {[]app{off, broken}, func(t *traffic) { t.marked = true }},
		"marks alone":             {[]app{broken}, func(t *traffic) { t.marked = true }},
		"long system prompt":      {[]app{off, broken}, func(t *traffic) { t.system = 1500 }},
		"long answers":            {[]app{off, broken}, func(t *traffic) { t.answer = 1200 }},
		"beside a healthy tenant": {[]app{off, broken, {placement: "split", found: 0.9}}, nil},
	} {
		for _, before := range []int{0, 10_000} {
			t.Run(fmt.Sprint(name, " after ", before), func(t *testing.T) {
				t.Parallel()
				most, _ := seeds(t)
				for seed := range 4 * most {
					sim, g := newTraffic(seed, shape.apps...), cacheguard.New()
					if shape.change != nil {
						shape.change(sim)
					}
					sim.apps = append([]app(nil), shape.apps...)
					for i := range sim.apps {
						sim.apps[i].breaks = false
					}
					if found := sim.observe(g, before, true); len(found) > 0 {
						t.Fatalf("seed %d: found before anything broke: %+v", seed, found[0])
					}
					sim.apps = shape.apps
					found := sim.observe(g, 2000, true)
					if len(found) != 1 || !found[0].Switched || found[0].Placement != "system" || found[0].carrying > 300 {
						t.Errorf("seed %d: got %+v, want one finding within 300 requests", seed, found)
						continue
					}
					if gap := found[0].Expected - found[0].Share; gap < cacheguard.Margin {
						t.Errorf("seed %d: the finding shows a difference of %.2f", seed, gap)
					}
					t.Logf("seed %d: after %d requests, %d with sources: %+v", seed, found[0].requests, found[0].carrying, found[0].Comparison)
				}
			})
		}
	}
}
