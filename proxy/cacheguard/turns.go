package cacheguard

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"time"
)

// maxEarlier is how many beginnings of a prompt may be an earlier request: an answer and what
// follows it are some messages, or more items where a model calls tools at once.
const maxEarlier = 16

// A Prompt identifies a prompt and its beginnings by digests. The zero Prompt is empty. See
// Guard.Extend.
type Prompt struct {
	digest  uint64
	earlier [maxEarlier]uint64 // of the last beginnings, at their number of parts modulo maxEarlier
	parts   int
}

// Extend adds a part to p: a message, or all that comes before the messages. A prompt that begins
// with all parts of another repeats it.
func (g *Guard) Extend(p *Prompt, part []byte) {
	if p.parts > 0 {
		p.earlier[p.parts%maxEarlier] = p.digest
	}
	p.digest = (bits.RotateLeft64(p.digest, 7) ^ maphash.Bytes(g.seed, part)) * 0x9E3779B97F4A7C15
	p.parts++
}

const (
	maxTurns    = 4096 // requests that are remembered, of all conversations; a newer one replaces an older one
	turnStripes = 16
)

// A turn is a request that a later one may repeat.
type turn struct {
	digest  uint64
	at      time.Time
	held    int64 // tokens that a request that repeats it can read from the cache
	carries bool  // something was added
}

// turns remembers requests by the digests of their prompts. The zero turns is empty.
type turns struct {
	stripes [turnStripes]struct {
		mu    sync.Mutex
		slots []turn
	}
}

// swap remembers a request, and returns the one that it repeats if that is not older than Lifetime.
func (t *turns) swap(p *Prompt, this turn) (before turn, ok bool) {
	this.digest = p.digest
	for n := p.parts - 1; n > 0 && n >= p.parts-maxEarlier+1 && !ok; n-- {
		before, ok = t.load(p.earlier[n%maxEarlier])
	}
	t.store(this)
	age := this.at.Sub(before.at)
	return before, ok && age >= 0 && age <= Lifetime
}

func (t *turns) load(digest uint64) (turn, bool) {
	stripe := &t.stripes[digest%turnStripes]
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	if stripe.slots == nil {
		return turn{}, false
	}
	found := stripe.slots[digest/turnStripes%(maxTurns/turnStripes)]
	return found, found.digest == digest && !found.at.IsZero()
}

func (t *turns) store(this turn) {
	stripe := &t.stripes[this.digest%turnStripes]
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	if stripe.slots == nil {
		stripe.slots = make([]turn, maxTurns/turnStripes)
	}
	stripe.slots[this.digest/turnStripes%(maxTurns/turnStripes)] = this
}
