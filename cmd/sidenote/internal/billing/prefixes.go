package billing

import (
	"slices"
	"time"
	"unicode/utf8"

	"sidenote/rewrite/tokens"
)

// The limits of what prefixes remembers.
const (
	maxPrompts     = 512
	maxPromptBytes = 64 << 20
	prefixLifetime = 5 * time.Minute
)

// prefixes bills the longest common prefix with an earlier request of the same model as read, from
// a minimum on and in steps. Writes are free.
type prefixes struct {
	rates         Rates
	minimum, step int
	counter       tokens.Counter

	seen  []*seenPrompt // oldest first
	bytes int
}

// A seenPrompt is a prompt that may still be cached.
type seenPrompt struct {
	prompt *prompt
	bytes  int
	used   time.Time
}

func (c *prefixes) bill(p *prompt, now time.Time) (Usage, error) {
	c.forget(func(s *seenPrompt) bool { return now.Sub(s.used) >= prefixLifetime })
	read := 0
	for _, s := range c.seen {
		common, within := c.common(s.prompt, p)
		if common >= c.minimum {
			s.used = now
		}
		if read = max(read, common); within {
			s.used = time.Time{} // p has all of it
		}
	}
	c.remember(p, now)
	if read -= read % c.step; read < c.minimum {
		read = 0
	}
	return c.rates.split(p.tokens(), read, 0, 0), nil
}

// remember keeps a prompt, and forgets those that it contains and the oldest beyond the limits.
func (c *prefixes) remember(p *prompt, now time.Time) {
	s := &seenPrompt{prompt: p, used: now}
	for i := range p.segments {
		s.bytes += len(p.segments[i].text)
	}
	c.forget(func(s *seenPrompt) bool { return s.used.IsZero() })
	c.seen, c.bytes = append(c.seen, s), c.bytes+s.bytes
	for len(c.seen) > maxPrompts || c.bytes > maxPromptBytes && len(c.seen) > 1 {
		c.bytes -= c.seen[0].bytes
		c.seen = slices.Delete(c.seen, 0, 1)
	}
}

func (c *prefixes) forget(which func(*seenPrompt) bool) {
	c.seen = slices.DeleteFunc(c.seen, func(s *seenPrompt) bool {
		gone := which(s)
		if gone {
			c.bytes -= s.bytes
		}
		return gone
	})
}

// common returns the tokens of the longest common prefix of two prompts, and whether old is a
// prefix of p. A text that they have in part is counted without its last token, which the rest of
// the text may change.
func (c *prefixes) common(old, p *prompt) (n int, within bool) {
	if old.model != p.model {
		return 0, false
	}
	for i := range old.segments {
		if i == len(p.segments) {
			return n, false
		}
		a, b := &old.segments[i], &p.segments[i]
		if a.kind != b.kind || a.text != b.text {
			return n + c.partly(a, b), false
		}
		n += b.tokens
	}
	return n, true
}

func (c *prefixes) partly(a, b *segment) int {
	if a.kind != b.kind || a.kind == headKind {
		return 0
	}
	same := 0
	for same < min(len(a.text), len(b.text)) && a.text[same] == b.text[same] {
		same++
	}
	for same > 0 && same < len(b.text) && !utf8.RuneStart(b.text[same]) {
		same--
	}
	n, _ := c.counter.Count(b.text[:same])
	return max(0, n-1)
}
