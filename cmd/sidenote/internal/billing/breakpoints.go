package billing

import "time"

// The limits of OpenAI's breakpoints.
const (
	breakpointMinimum  = 1024 // tokens of the shortest prefix that is cached
	breakpointWrites   = 4    // breakpoints that a request writes, the implicit one included
	breakpointLookups  = 80   // latest ends of parts and messages that are looked up
	breakpointLifetime = 30 * time.Minute
)

// breakpoints bills as OpenAI does from GPT-5.6 on. A request writes the prefixes up to its latest
// explicit breakpoints and to the implicit one, which is at the end of its newest message unless
// prompt_cache_options say otherwise. It reads the longest prefix that was written before and that
// ends where one of its own parts or messages does. What several writes have in common is billed
// once.
type breakpoints struct {
	rates   Rates
	entries *entries
}

func (c *breakpoints) bill(p *prompt, now time.Time) (Usage, error) {
	all := p.boundaries()
	read := 0
	for i := len(all) - 1; i >= max(0, len(all)-breakpointLookups); i-- {
		if b := all[i]; b.tokens >= breakpointMinimum && c.entries.has(b.digest, now) {
			c.entries.use(b.digest, now)
			read = b.tokens
			break
		}
	}
	end := read
	for _, b := range c.writes(p, all) {
		if b.tokens >= breakpointMinimum {
			c.entries.write(b.digest, breakpointLifetime, now)
			end = max(end, b.tokens)
		}
	}
	return c.rates.split(p.tokens(), read, end-read, 0), nil
}

// writes returns the boundaries that a request writes, latest first.
func (c *breakpoints) writes(p *prompt, all []boundary) []boundary {
	var chosen []boundary
	for i := len(all) - 1; i >= 0 && len(chosen) < breakpointWrites; i-- {
		implicit := i == len(all)-1 && !p.explicit
		if implicit || p.segments[all[i].at].breakpoint {
			chosen = append(chosen, all[i])
		}
	}
	if !p.explicit && len(chosen) > 0 && p.segments[chosen[0].at].breakpoint {
		chosen = chosen[:min(len(chosen), breakpointWrites-1)] // the implicit one is one of the explicit ones
	}
	return chosen
}
