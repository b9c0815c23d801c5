package answer

import "strings"

// A blockReader parses just enough Markdown to tell which markers are not citations: those in code
// and in link texts. Three backticks may open a fence and a bracket may open a link, but that is
// known only later, so markers after such a start are held until it is decided.
//
// It is more tolerant than CommonMark: fences may appear at any depth of lists and quotes, and
// indented lines are not code, because answers indent the contents of list items.
type blockReader struct {
	tokens []token // from the first undecided token on; empty if there is none
	run    int     // length of the first open run of backticks; 0 if none
	runAt  int     // index of its token
	info   bool    // the run opens a fence, unless its line has another run
	depth  int     // open brackets outside of runs

	ticks    int  // length of the run that is being read
	tick     byte // its byte: backtick or tilde
	ticksAt  bool // the run is at the start of its line
	closing  bool // the last byte was a closing bracket
	midLine  bool // the line has more than spaces and list or quote marks
	indented bool // the line has more than spaces
	fence    byte // byte of the open fence, a backtick or tilde; 0 if none
	size     int  // length of that fence
	opening  bool // still on the line that opens it
	fresh    bool // a block such as a paragraph has just begun
}

// A token is a part of a block that may affect later markers.
type token struct {
	kind   tokenKind
	length int      // only for runToken
	marker *mention // only for markerToken
}

type tokenKind byte

const (
	runToken   tokenKind = iota // a run of backticks
	openToken                   // an opening bracket
	closeToken                  // a closing bracket
	linkToken                   // a closing bracket followed by a link's address
	lineToken                   // the end of a line
	markerToken
)

// maxTokens limits the tokens that are held. The rest of a block with more tokens is read as plain
// text; no answer is known to need that.
const maxTokens = 1000

// inFence reports whether a fence is open.
func (r *blockReader) inFence() bool { return r.fence != 0 }

// hold keeps a marker that may be in code or a link. Otherwise it returns false.
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

// open reads an opening bracket that does not begin a marker.
func (r *blockReader) open() {
	if r.push(token{kind: openToken}) && r.run == 0 {
		r.depth++
	}
}

// text reads a byte that is plain text. Like read, it returns the held markers that turned out to
// be citations.
func (r *blockReader) text(b byte) []*mention {
	held := r.before(b)
	r.midLine, r.indented = true, true
	return held
}

// read reads a byte outside of fences.
func (r *blockReader) read(b byte) []*mention {
	held := r.before(b)
	if r.fence != 0 { // the preceding tildes opened it
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
		held = append(held, r.endBlock()...) // code and links end with their block
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

// before handles the end of a run or closing bracket before b.
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

// endRun handles the end of a run of backticks, or of tildes at the start of a line.
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
	case n == r.run: // everything between them is code
		r.tokens, r.run = r.tokens[:r.runAt], 0
	case fences: // a fence ends the block in which a run was left open
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

// endLine handles the end of a line.
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

// fenced reads a byte in a fence, which a line with only its bytes, at least as many as opened it,
// closes.
func (r *blockReader) fenced(b byte) {
	switch {
	case b == '\n':
		if !r.opening && !r.midLine && r.ticks >= r.size {
			r.fence, r.fresh = 0, true
		}
		r.startLine()
	case b == ' ' || b == '\t' || b == '\r' || b == '>' && r.ticks == 0:
		r.indented = r.ticks > 0 // other bytes after a run end it
	case b == r.fence && !r.indented:
		r.ticks++
	default:
		r.midLine = true
	}
}

// endBlock handles the end of a paragraph or other block.
func (r *blockReader) endBlock() []*mention {
	held := r.resolve()
	r.fresh = true
	return held
}

// end handles the end of the text.
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
	next, last := make([]int, len(r.tokens)), map[int]int{} // next[i]: the next run of the same length, 0 if none
	for i := len(r.tokens) - 1; i >= 0; i-- {
		if t := &r.tokens[i]; t.kind == runToken {
			next[i] = last[t.length]
			last[t.length] = i
		}
	}
	var open []int // for each open bracket, the number of markers before it
	for i := 0; i < len(r.tokens); i++ {
		switch t := &r.tokens[i]; t.kind {
		case runToken:
			i = max(i, next[i]) // a run that is not closed is text
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
