package billing

import (
	"fmt"
	"slices"
	"time"
)

// The limits of Anthropic's cache_control.
const (
	marksMinimum  = 1024 // tokens of the shortest prefix that is cached
	marksMost     = 4    // marks of a request, the automatic one included
	marksLookback = 20   // blocks that are looked up for each mark, its own included
)

// marks bills as Anthropic does. A request writes the prefixes up to its marks. It reads the
// longest prefix that was written before and that ends at one of the blocks which each mark looks
// back on. The lines of its refusals are Anthropic's.
type marks struct {
	rates   Rates
	entries *entries
}

// A mark is a block with cache_control.
type mark struct {
	*control
	at int // index of the boundary
}

func (c *marks) bill(p *prompt, now time.Time) (Usage, error) {
	all := p.boundaries()
	set, err := c.marks(p, all)
	if err != nil {
		return Usage{}, err
	}
	read, hit := 0, -1
	for _, m := range set {
		for i := m.at; i > m.at-marksLookback && i > hit; i-- {
			if b := all[i]; b.tokens >= marksMinimum && c.entries.has(b.digest, now) {
				read, hit = b.tokens, i
			}
		}
	}
	if hit >= 0 {
		c.entries.use(all[hit].digest, now)
	}
	end, hour := read, read
	for _, m := range set {
		b := all[m.at]
		if b.tokens < marksMinimum {
			continue
		}
		c.entries.write(b.digest, m.lifetime(), now)
		if end = max(end, b.tokens); m.hour() {
			hour = max(hour, b.tokens)
		}
	}
	return c.rates.split(p.tokens(), read, end-read, hour-read), nil
}

// marks returns the marks of a request in order.
func (c *marks) marks(p *prompt, all []boundary) ([]mark, error) {
	var set []mark
	last := -1 // the last block that the automatic mark could be at
	for i, b := range all {
		s := &p.segments[b.at]
		empty := s.kind == textKind && s.text == ""
		if s.kind != thinkingKind && !empty {
			last = i
		}
		switch {
		case s.control == nil:
			continue
		case s.kind == thinkingKind:
			return nil, refused("%s.thinking.cache_control: Extra inputs are not permitted", s.place)
		case empty:
			return nil, refused("%s.text: cache_control cannot be set for empty text blocks", s.place)
		}
		set = append(set, mark{s.control, i})
	}
	if p.automatic != nil && last >= 0 && !slices.ContainsFunc(set, func(m mark) bool { return m.at == last }) {
		set = append(set, mark{p.automatic, last})
		slices.SortFunc(set, func(a, b mark) int { return a.at - b.at })
	}
	return set, c.check(p, all, set)
}

func (c *marks) check(p *prompt, all []boundary, set []mark) error {
	if len(set) > marksMost {
		return refused("A maximum of %d blocks with cache_control may be provided. Found %d.", marksMost, len(set))
	}
	short := false
	for _, m := range set {
		place := p.segments[all[m.at].at].place
		switch {
		case !slices.Contains([]string{"", "5m", "1h"}, m.TTL):
			return refused("%s.cache_control.ttl: Input should be '5m' or '1h'", place)
		case m.hour() && short:
			return refused("%s.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "+
				"Note that blocks are processed in the following order: `tools`, `system`, `messages`.", place)
		}
		short = short || !m.hour()
	}
	return nil
}

func refused(format string, args ...any) error {
	return &RefusedError{fmt.Sprintf(format, args...)}
}
