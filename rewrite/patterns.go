package rewrite

import (
	"bytes"
	"math"
	"strings"
	"sync"
	"unicode"
)

// patterns are texts that are looked for in messages, all of them in one pass. They
// are safe for concurrent use.
//
// The pass is that of Wu and Manber ("A fast algorithm for multi-pattern searching",
// 1994): the last eight bytes of a window tell how far it may move before what is
// looked for can stand in it. It reads one word in some hundred bytes.
type patterns struct {
	list   []pattern
	least  int // bytes of the shortest text
	blank  int // texts in which nothing is to be seen; they are never found
	window int // bytes of each long run that the pass looks for; 0: there is no pass
	short  bool

	once sync.Once             // most requests have no message that is long enough
	near *[1 << nearBits]uint8 // by the hash of a window's last word: how much less than by most it may move
}

// A pattern is one of them.
type pattern struct {
	text string // without white space at its ends; "" is a blank one
	// run is bytes of text that every JSON encoder writes as they are: a message
	// without them need not be decoded. probe is some of it, from a rare byte on.
	run   string
	probe []byte
}

const (
	nearBits  = 11
	leastRun  = 16 // bytes of a run that is long enough for the pass
	mostProbe = 48 // bytes; those up to 63 are compared in two instructions
)

func (n *pattern) long() bool { return len(n.run) >= leastRun }

// newPatterns returns the patterns of n texts.
func newPatterns(n int, text func(i int) string) *patterns {
	s := &patterns{list: make([]pattern, n), least: math.MaxInt}
	for i := range s.list {
		t := text(i)
		if !strings.ContainsFunc(t, visible) {
			s.blank++
			continue
		}
		t = strings.TrimSpace(t)
		run := verbatim(t)
		s.list[i] = pattern{text: t, run: run, probe: []byte(rarest(run[:min(len(run), mostProbe)]))}
		s.least = min(s.least, len(t))
		switch {
		case !s.list[i].long():
			s.short = true
		case s.window == 0 || len(run) < s.window:
			s.window = len(run)
		}
	}
	if n == 1 { // a search by its rarest byte is as good
		s.window = 0
	}
	return s
}

// most is how far a window may move whose last word stands in no long run.
func (s *patterns) most() int { return s.window - 7 }

// learn notes how far each word that stands in a long run is from the end of a window:
// no further may the window move.
func (s *patterns) learn() {
	s.near = new([1 << nearBits]uint8)
	for i := range s.list {
		if !s.list[i].long() {
			continue
		}
		run := []byte(s.list[i].run)
		for end := 8; end <= s.window; end++ {
			at := &s.near[nearSlot(run[end-8:])]
			*at = max(*at, uint8(s.most()-(s.window-end)))
		}
	}
}

func nearSlot(b []byte) uint64 { return word(b) * 0x9e3779b97f4a7c15 >> (64 - nearBits) } // 2^64 over the golden ratio

// maybe tells whether a long run may stand in raw.
func (s *patterns) maybe(raw []byte) bool {
	s.once.Do(s.learn)
	near, most := s.near, s.most()
	for end := s.window; end <= len(raw); {
		less := int(near[nearSlot(raw[end-8:])])
		if less == 0 { // as a rule, so that the processor looks ahead and need not wait for it
			end += most
			continue
		}
		if less < most {
			end += most - less
			continue
		}
		window := raw[end-s.window : end]
		for i := range s.list {
			if n := &s.list[i]; n.long() && n.run[:s.window] == string(window) {
				return true
			}
		}
		end++
	}
	return false
}

// in returns which of the texts stand in the messages, nil for none.
func (s *patterns) in(p *presence) (found []bool) {
	for i := range p.req.messages[:p.last+1] {
		for t := range p.req.texts(&p.req.messages[i]) {
			raw := t.of(p.req.Body)
			if len(raw) < s.least {
				continue
			}
			if long := s.window == 0 || s.maybe(raw); long || s.short {
				found = s.mark(found, raw, long)
			}
		}
	}
	return found
}

// mark notes what stands in raw, a quoted string in which long runs may stand or not.
func (s *patterns) mark(found []bool, raw []byte, long bool) []bool {
	decoded := ""
	for i := range s.list {
		n := &s.list[i]
		if n.text == "" || len(n.text) > len(raw) || !long && n.long() || found != nil && found[i] || !bytes.Contains(raw, n.probe) {
			continue
		}
		if decoded == "" {
			decoded = unquote(raw)
		}
		if strings.Contains(decoded, n.text) {
			if found == nil {
				found = make([]bool, len(s.list))
			}
			found[i] = true
		}
	}
	return found
}

// visible tells the characters of which one makes a text: white space, controls
// and what has no width do not, and may all be gone from the prompt.
func visible(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }

// verbatimRun is as long a run as need be, in bytes.
const verbatimRun = 128

// verbatim returns the first verbatimRun bytes of text that no JSON encoder
// escapes, or the longest there is; it may be empty.
func verbatim(text string) string {
	best, start := "", 0
	for i := range len(text) {
		if escapable(text[i]) {
			if i-start > len(best) {
				best = text[start:i]
			}
			start = i + 1
		} else if i+1-start == verbatimRun {
			return text[start : i+1]
		}
	}
	if len(text)-start > len(best) {
		best = text[start:]
	}
	return best
}

// rarest returns run from the byte of its first half on that texts hold least:
// what is searched for by its first byte is then hardly ever met in vain.
func rarest(run string) string {
	const common = " etaoinsrhldcumfpgwybv,.k" // commonest first
	best, rank := 0, -1
	for i := range (len(run) + 1) / 2 {
		at := strings.IndexByte(common, run[i])
		if at < 0 {
			return run[i:]
		}
		if at > rank {
			best, rank = i, at
		}
	}
	return run[best:]
}

// escapable tells the bytes that some JSON encoder writes as an escape: Gson does '=',
// .NET '+' and '`'.
func escapable(c byte) bool {
	switch c {
	case '"', '\\', '/', '<', '>', '&', '\'', '+', '=', '`':
		return true
	}
	return c < ' ' || c >= 0x7f
}
