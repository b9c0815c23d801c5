package chunks

import (
	"cmp"
	"fmt"
	"math/bits"
	"strings"

	"sidenote/rewrite/tokens"
)

// fit selects the chunks to include.
func (a *assembly) fit() error {
	budget, full := a.options.budget()
	if a.used = a.edge(&a.system, nil, nil); a.used > budget {
		return wrong("context.system_prompt", "needs %d tokens, more than %s", a.used, limit(full))
	}
	if a.options.Oversize == OversizeRefuse {
		if err := a.refuseOversize(); err != nil {
			return err
		}
	}
	cut := false
	for _, i := range a.order() {
		blk := &a.blocks[i]
		switch {
		case blk.out != "":
			continue
		case cut:
			blk.out, blk.detail = OutBelowCut, "after the chunk that was cut"
			continue
		}
		around := a.around(i)
		room := budget - a.used - around
		if blk.tokens > room {
			if cut = a.options.Truncate && !a.list[i].NoTruncate && a.shorten(blk, room); !cut {
				a.leaveOut(blk, full, room)
				continue
			}
			a.cut = i
		}
		a.used += around + blk.tokens
		a.lane(blk).add(i)
	}
	return nil
}

// refuseOversize returns an error for the first chunk that is larger than the whole budget and
// must not be cut.
func (a *assembly) refuseOversize() error {
	for i := range a.blocks {
		blk := &a.blocks[i]
		if blk.out != "" || a.options.Truncate && !a.list[i].NoTruncate {
			continue
		}
		if alone := a.alone(blk); alone > a.options.maxTokens() {
			return wrong(field(i, "content"), "needs %d tokens, more than %s, and may not be cut", alone, limit(OutBudget))
		}
	}
	return nil
}

// leaveOut excludes a block that needs more than room tokens. It distinguishes blocks larger than
// the whole budget from those displaced by other chunks.
func (a *assembly) leaveOut(b *block, full ExcludeReason, room int) {
	if alone, most := a.alone(b), a.options.maxTokens(); alone > most {
		b.out, b.detail = OutTooLarge, fmt.Sprintf("needs %d tokens; max_tokens is %d", alone, most)
		return
	}
	b.out, b.detail = full, fmt.Sprintf("needs %d tokens, %d left", b.tokens, max(room, 0))
}

func limit(full ExcludeReason) string {
	if full == OutWindow {
		return "the model's window leaves"
	}
	return "max_tokens"
}

// byPriority compares two chunks by the order in which they are tried. With truncate, those that
// must not be cut come first, as among components.
func byPriority(x, y *Chunk, truncate bool) int {
	if truncate && x.NoTruncate != y.NoTruncate {
		if x.NoTruncate {
			return -1
		}
		return 1
	}
	return compareNumbers(y.priority(), x.priority())
}

func (c *Chunk) priority() string {
	if c.Priority == "" {
		return fmt.Sprint(DefaultPriority)
	}
	return string(c.Priority)
}

// compareNumbers compares whole numbers of any length.
func compareNumbers(x, y string) int {
	x, minusX := magnitude(x)
	y, minusY := magnitude(y)
	switch {
	case minusX && !minusY:
		return -1
	case minusY && !minusX:
		return 1
	case minusX:
		x, y = y, x
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
}

// magnitude returns the digits of a whole number without leading zeros, "" for 0.
func magnitude(s string) (digits string, minus bool) {
	digits, minus = strings.CutPrefix(s, "-")
	digits = strings.TrimLeft(digits, "0")
	return digits, minus && digits != ""
}

// A lane holds the selected chunks of the system message, or those of all other messages, as a
// bit set over the list.
type lane struct {
	joined bool   // the lane continues an existing message
	before string // the end of that message, and the lead
	prompt string // text before the first chunk
	tokens int    // tokens of the prompt alone, with its overhead; 0 if there is none
	lead   int    // tokens of the lead of a joined lane without a prompt
	in     []uint64
	first  int // lowest selected chunk; greater than last if there is none
	last   int // highest selected chunk, -1 if there is none
}

func (w *writer) newLane(n int, prompt string, joined *Seam) lane {
	l := lane{prompt: prompt, in: make([]uint64, (n+63)/64), first: n, last: -1}
	if joined != nil {
		l.joined, l.before = true, joined.Before+joined.Lead
	}
	switch {
	case prompt == "":
	case l.joined:
		l.tokens = w.delta(joined.Before, joined.Lead+prompt)
	default:
		l.tokens = tokens.MessageOverhead + w.count(prompt)
	}
	if joined != nil && prompt == "" {
		l.lead = w.delta(joined.Before, joined.Lead)
	}
	return l
}

func (l *lane) add(i int) {
	l.in[i/64] |= 1 << (i % 64)
	l.first, l.last = min(l.first, i), max(l.last, i)
}

// next returns the first selected chunk after i, -1 if there is none.
func (l *lane) next(i int) int {
	if i >= l.last {
		return -1
	}
	i++
	for {
		if w := l.in[i/64] >> (i % 64); w != 0 {
			return i + bits.TrailingZeros64(w)
		}
		i = (i/64 + 1) * 64
	}
}

// previous returns the last selected chunk before i, -1 if there is none.
func (l *lane) previous(i int) int {
	if i <= l.first {
		return -1
	}
	i--
	for {
		if w := l.in[i/64] << (63 - i%64); w != 0 {
			return i - bits.LeadingZeros64(w)
		}
		i = i/64*64 - 1
	}
}

// around returns how many tokens chunk i adds beyond those of its inside, between the chunks
// selected so far. It is negative if it merges the messages on both sides.
func (a *assembly) around(i int) int {
	l := a.lane(&a.blocks[i])
	before, after := a.at(l.previous(i)), a.at(l.next(i))
	return a.edge(l, before, &a.blocks[i]) + a.edge(l, &a.blocks[i], after) - a.edge(l, before, after)
}

// alone returns the tokens of a chunk in a message of its own.
func (a *assembly) alone(b *block) int {
	empty := lane{last: -1}
	return a.edge(&empty, nil, b) + b.tokens + a.edge(&empty, b, nil)
}

// at returns the i-th block, nil for -1.
func (a *assembly) at(i int) *block {
	if i < 0 {
		return nil
	}
	return &a.blocks[i]
}

// edge returns the tokens between the insides of two neighbouring elements. If before or after is
// nil, it returns those at the beginning or end of the lane. For counting, messages are split
// after the name in each tag:
//
//	<thinking| id="1">
//	…
//	</thinking|>
//
//	<tool_call| id="2" tool="search">
//
// Names end with a letter or digit, and a space or '>' follows. No encoding has a token across
// that, so counts add up exactly (see verdicts in package tokens).
func (a *assembly) edge(l *lane, before, after *block) int {
	switch {
	case before == nil && after == nil:
		return l.tokens
	case before == nil && (l.joined || l.prompt != ""):
		return l.tokens + l.lead + a.follows(l, after.tag)
	case before == nil:
		return tokens.MessageOverhead + a.opens(after.tag)
	case after == nil:
		return a.closes()
	case before.role == after.role:
		return a.joins(after.tag)
	}
	return a.closes() + tokens.MessageOverhead + a.opens(after.tag)
}
