package report

import (
	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/rewrite"
)

// A CacheMiss is an upstream's diagnosis of its prompt cache.
type CacheMiss struct {
	Reason answer.CacheMiss
	Tokens int64 // that could have been read from the cache, as the upstream estimates; 0 if unknown
}

// A ContextUsage says how an upstream's cache treated the tokens that Sidenote added to a prompt,
// and what they cost. It is an estimate: upstreams report cached tokens of the whole prompt only.
type ContextUsage struct {
	budget.Tokens // without output; zero if the answer did not report usage

	Cost   budget.PicoDollars // by the prices of the answer's service tier
	Priced bool               // Cost is known
}

func (c *ContextUsage) add(other *ContextUsage) {
	c.Priced = (c.Priced || c.Input == 0) && (other.Priced || other.Input == 0) && c.Input+other.Input > 0
	c.Input, c.CachedInput = c.Input+other.Input, c.CachedInput+other.CachedInput
	c.CacheWrite, c.CacheWrite1h = c.CacheWrite+other.CacheWrite, c.CacheWrite1h+other.CacheWrite1h
	c.Cost += other.Cost
}

// MeasureContext estimates what the last answer's usage has of the tokens that were added to its
// prompt, and prices them. In a chat with stages each stage has a prompt of its own, so nothing is
// known. prices may be nil.
func (r *Report) MeasureContext(prices *budget.Prices) {
	l := &r.Rewrite.Ledger
	if !r.Injected() || r.Stages != nil || r.Usage.Input == 0 || r.Budget.Implausible {
		return
	}
	c := &r.Context
	if c.Tokens = contextTokens(int64(l.Grown()), l.Parts[:], &r.Usage); c.Input == 0 || prices == nil {
		return
	}
	var err error
	c.Cost, err = prices.Cost(c.Tokens)
	c.Priced = err == nil
}

// contextTokens splits n added tokens by how the upstream's cache treated them. Upstreams cache a
// prompt from its start: first come the tokens that were read from the cache, then those written to
// it, for an hour before those for less, then the rest. The parts of the added text are in prompt
// order; the tokens of the application are spread evenly over its bytes, so the result is an
// estimate. Its Input is n, or less if the usage has less.
func contextTokens(n int64, parts []rewrite.ContextPart, u *answer.Usage) (t budget.Tokens) {
	t.Input = max(min(n, u.Input), 0)
	own := u.Input - t.Input // of the application
	hour := u.CachedInput + u.CacheWrite1h
	var share float64
	var from int64 // within the added tokens
	for i, p := range parts {
		share += p.Share
		to := min(int64(share*float64(t.Input)+.5), t.Input)
		if i == len(parts)-1 {
			to = t.Input
		}
		at := min(int64(p.Before*float64(own)+.5), own)
		first, last := at+from, at+to
		t.CachedInput += overlap(first, last, 0, u.CachedInput)
		t.CacheWrite += overlap(first, last, u.CachedInput, u.CachedInput+u.CacheWrite)
		t.CacheWrite1h += overlap(first, last, u.CachedInput, hour)
		from = to
	}
	return t
}

// overlap returns how many numbers from a up to b are also from c up to d.
func overlap(a, b, c, d int64) int64 { return max(min(b, d)-max(a, c), 0) }
