package answer

import "strings"

// A blockReader reads Markdown as far as it tells which markers are none: those in code and
// in the texts of links. What that is turns out later than it begins: three backticks may open a
// fence, two brackets a link. Markers behind such a beginning are held until it is known.
//
// It is more tolerant than CommonMark: fences may stand at any depth of lists and quotes, and
// indented lines are no code, as answers indent what belongs to a list.
type blockReader struct {
	tokens []token // since the first one that is open; empty if nothing is
	run    int     // length of the first run of backticks that is open; 0: none is
	runAt  int     // its token
	info   bool    // that run opens a fence, unless its line has another one
	depth  int     // brackets that are open outside of runs

	ticks    int  // length of a run that is being read
	tick     byte // of which byte
	ticksAt  bool // it is at the head of its line
	closing  bool // a closing bracket was last
	midLine  bool // something stands on the line beside spaces, marks of lists and quotes
	indented bool // something beside spaces
	fence    byte // that is open: a backtick or tilde; 0: none
	size     int  // of that fence
	opening  bool // its first line goes on
	fresh    bool // a block, such as a paragraph, has begun
}

// A token is a part of a block that may matter to markers behind it.
type token struct {
	kind   tokenKind
	length int      // of a run
	marker *mention // of a marker
}

type tokenKind byte

const (
	runToken   tokenKind = iota // of backticks
	openToken                   // a bracket
	closeToken                  // a bracket
	linkToken                   // a closing bracket behind which a link's address stands
	lineToken                   // the end of a line
	markerToken
)

// maxTokens is how many tokens are held. In a block with more of them, which no answer is known
// to have, the rest is read as plain text.
const maxTokens = 1000

// inFence tells whether a fence is open.
func (r *blockReader) inFence() bool { return r.fence != 0 }

// hold holds a marker if it may stand in code or in a link; otherwise it returns false.
func (r *blockReader) hold(m *mention) bool {
	return (r.run > 0 || r.depth > 0) && r.push(token{kind: markerToken, marker: m})
}

func (r *blockReader) push(t token) bool {
	if len(r.tokens) == maxTokens {
		return false
	}
	r.tokens = append(r.tokens, t)
	return true
}

// open reads an opening bracket, which begins no marker.
func (r *blockReader) open() {
	if r.push(token{kind: openToken}) && r.run == 0 {
		r.depth++
	}
}

// text reads a byte that is nothing but text. It returns the markers of which it turned out that
// they are some, like those that follow.
func (r *blockReader) text(b byte) []*mention {
	held := r.before(b)
	r.midLine, r.indented = true, true
	return held
}

// read reads a byte outside of fences.
func (r *blockReader) read(b byte) []*mention {
	held := r.before(b)
	if r.fence != 0 { // a run of tildes was one
		r.fenced(b)
		return held
	}
	switch b {
	case '\n':
		return append(held, r.endLine()...)
	case ' ', '\t', '\r':
		return held
	case ']':
		r.closing = len(r.tokens) > 0
	}
	if !r.indented && (strings.IndexByte("-*+#>|", b) >= 0 || b >= '0' && b <= '9') {
		held = append(held, r.endBlock()...) // code and links do not go on in the next block
	}
	r.indented = true
	if b == '`' || b == '~' && (!r.midLine || r.ticks > 0) {
		if r.ticks == 0 {
			r.ticksAt = !r.midLine
		}
		r.tick = b
		r.ticks++
	}
	r.midLine = r.midLine || strings.IndexByte(">-*+.)0123456789", b) < 0
	return held
}

// before reads what the byte before b turns out to be.
func (r *blockReader) before(b byte) (held []*mention) {
	if r.ticks > 0 && b != r.tick {
		held = r.endRun()
	}
	if !r.closing {
		return held
	}
	r.closing = false
	t := token{kind: closeToken}
	if b == '(' {
		t.kind = linkToken
	}
	if r.push(t) && r.run == 0 && r.depth > 0 {
		if r.depth--; r.depth == 0 {
			held = append(held, r.resolve()...)
		}
	}
	return held
}

// endRun reads a run of backticks, or of tildes at the head of a line.
func (r *blockReader) endRun() []*mention {
	n := r.ticks
	r.ticks = 0
	fences := n >= 3 && r.ticksAt
	switch {
	case r.tick == '~':
		if !fences || r.run > 0 {
			return nil
		}
		held := r.endBlock()
		r.fence, r.size, r.opening = r.tick, n, true
		return held
	case r.run == 0:
		if r.runAt = len(r.tokens); r.push(token{kind: runToken, length: n}) {
			r.run, r.info = n, fences
		}
		return nil
	case n == r.run: // all between them is code
		r.tokens, r.run = r.tokens[:r.runAt], 0
	case fences: // it ends the block in which a run was left open
		held := r.endBlock()
		r.push(token{kind: runToken, length: n})
		r.run, r.runAt, r.info = n, 0, true
		return held
	default:
		r.push(token{kind: runToken, length: n})
	}
	r.info = false
	return nil
}

// endLine reads the end of a line.
func (r *blockReader) endLine() (held []*mention) {
	switch {
	case r.info:
		r.fence, r.size = '`', r.run
		r.tokens, r.run = r.tokens[:r.runAt], 0
		held = r.endBlock()
	case !r.indented:
		held = r.endBlock()
	case r.run > 0:
		r.push(token{kind: lineToken})
	case r.depth > 0:
		held = r.resolve()
	}
	r.startLine()
	return held
}

func (r *blockReader) startLine() {
	r.midLine, r.indented, r.info, r.ticks, r.opening = false, false, false, 0, false
}

// fenced reads a byte in a fence. The fence ends with a line of nothing but as many of its bytes
// at least.
func (r *blockReader) fenced(b byte) {
	switch {
	case b == '\n':
		if !r.opening && !r.midLine && r.ticks >= r.size {
			r.fence, r.fresh = 0, true
		}
		r.startLine()
	case b == ' ' || b == '\t' || b == '\r' || b == '>' && r.ticks == 0:
		r.indented = r.ticks > 0 // what follows a run ends it
	case b == r.fence && !r.indented:
		r.ticks++
	default:
		r.midLine = true
	}
}

// endBlock reads the end of a paragraph or the like.
func (r *blockReader) endBlock() []*mention {
	held := r.resolve()
	r.fresh = true
	return held
}

// end reads the end of the text.
func (r *blockReader) end() []*mention {
	held := r.before(0)
	if r.info {
		r.tokens = r.tokens[:r.runAt]
	}
	return append(held, r.endBlock()...)
}

// resolve returns the held markers that are neither in code nor in the text of a link.
func (r *blockReader) resolve() (held []*mention) {
	if len(r.tokens) == 0 {
		r.run, r.depth = 0, 0
		return nil
	}
	next, last := make([]int, len(r.tokens)), map[int]int{} // the next run of the same length
	for i := len(r.tokens) - 1; i >= 0; i-- {
		if t := &r.tokens[i]; t.kind == runToken {
			next[i] = last[t.length]
			last[t.length] = i
		}
	}
	var open []int // how many markers stood before each bracket that is open
	for i := 0; i < len(r.tokens); i++ {
		switch t := &r.tokens[i]; t.kind {
		case runToken:
			i = max(i, next[i]) // without another one it is text
		case openToken:
			open = append(open, len(held))
		case closeToken, linkToken:
			if len(open) == 0 {
				break
			}
			if t.kind == linkToken {
				held = held[:open[len(open)-1]]
			}
			open = open[:len(open)-1]
		case lineToken:
			open = open[:0]
		case markerToken:
			held = append(held, t.marker)
		}
	}
	r.tokens, r.run, r.depth = r.tokens[:0], 0, 0
	return held
}
