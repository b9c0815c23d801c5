package tools

// A code tells, byte by byte, whether a text is code by CommonMark's rules for fences and code
// spans. Since it cannot look ahead, it differs in two points: a code span ends with its line,
// even if nothing closes it; and a fence may be indented by more than three spaces, as in list
// items.
type code struct {
	fence   fence // open fence; zero if none
	pending fence // opens at the end of the line, unless more back-ticks follow
	closing bool  // the line closes the fence, unless more than white space follows
	span    int   // number of back-ticks that opened a code span; 0: none
	escaped bool  // the next byte is escaped by a backslash

	// The current line.
	begun  bool // has more than white space and list or quotation marks
	indent int
	quoted bool // has a quotation mark (>)
	mark   byte // character of the current run: ` or ~
	run    int  // length of the run; 0: none
}

type fence struct {
	mark           byte
	length, indent int
	quoted         bool
}

const (
	minFence  = 3
	maxIndent = 3 // of a closing fence, beyond that of the opening one
	tab       = 4
)

// inside reports whether the next byte is in code, or escaped by a backslash.
func (k *code) inside() bool {
	k.endRun()
	return k.fence.length > 0 || k.span > 0 || k.escaped
}

// skip tells k that something that is not code was skipped in the line.
func (k *code) skip() { k.begun = true }

func (k *code) read(c byte) {
	if (c == '`' || c == '~') && !k.escaped {
		if k.mark != c {
			k.endRun()
		}
		k.mark = c
		k.run++
		return
	}
	k.endRun()
	if c == '\n' {
		k.endLine()
		return
	}
	k.escaped = c == '\\' && !k.escaped && k.fence.length == 0 && k.span == 0
	switch {
	case k.begun:
	case c == '\t':
		k.indent += tab
	case isSpace(c), k.marksBlock(c):
		k.indent++
		k.quoted = k.quoted || c == '>'
	default:
		k.begun = true
	}
	k.closing = k.closing && isSpace(c)
}

// marksBlock reports whether c may precede a fence: as a quotation mark or, outside a fence, as a
// list mark.
func (k *code) marksBlock(c byte) bool {
	if k.fence.length > 0 {
		return c == '>' && k.fence.quoted
	}
	switch c {
	case '>', '-', '*', '+', '.', ')':
		return true
	}
	return '0' <= c && c <= '9'
}

// endRun ends a run of back-ticks or tildes.
func (k *code) endRun() {
	n, begins := k.run, !k.begun
	if n == 0 {
		return
	}
	k.run, k.begun = 0, true
	opening := fence{k.mark, n, k.indent, k.quoted}
	switch {
	case k.fence.length > 0:
		k.closing = begins && k.mark == k.fence.mark && n >= k.fence.length && k.indent <= k.fence.indent+maxIndent
	case k.mark == '~':
		if begins && n >= minFence {
			k.fence = opening
		}
	case k.span == 0:
		k.span = n
		if begins && n >= minFence {
			k.pending = opening
		}
	default:
		k.pending = fence{}
		if n == k.span {
			k.span = 0
		}
	}
}

func (k *code) endLine() {
	open := k.fence
	switch {
	case k.closing:
		open = fence{}
	case k.pending.length > 0:
		open = k.pending
	}
	*k = code{fence: open}
}
