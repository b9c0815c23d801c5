// Package chunk cuts a document into chunks along its own structure: headings, tables,
// listings, records and the declarations of source code.
package chunk

import (
	"slices"
	"strings"
	"unicode"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/extract"
)

const (
	// MaxTokens is the size limit of a chunk.
	MaxTokens = 400
	// Chunks of fewer than smallChunk tokens are merged with a neighbour: a heading and one line
	// rarely answer a question.
	smallChunk = 100
	// Chunks of mergedChunk tokens or more are not merged: chunks about several subjects rank low
	// for each of them.
	mergedChunk = 200
)

// A Chunk is a part of a document that is found and shown on its own.
type Chunk struct {
	Section string // heading path below the title
	Text    string
	Counts  []Count // of tokens in Text; Cut leaves them empty
}

// A Count is the number of tokens of a text, with the name of the counter.
type Count struct {
	Counter string
	Tokens  int
}

// CounterName returns the name of the counter of an encoding in a version of Sidenote. It
// distinguishes counts of different versions.
func CounterName(version, encoding string) string { return string(Fields(version, encoding)) }

// A unit is a block, or a part of a block that is too long.
type unit struct {
	start, end  int
	of          *block
	depth       int  // index of the next splitter to try
	first, last bool // whether it begins and ends the block
	leads       bool // it should be in one chunk with what follows
	tokens      int  // -1 if not counted yet
}

// A run is a chunk under construction: adjacent units under one heading path.
type run struct {
	path        []string
	declares    bool // path holds names of declarations, not nested headings
	start, end  int
	head, tail  string
	inLine      bool // it starts in the middle of a line
	headingOnly bool
	tokens      int // -1 if not counted yet
}

// A cutter cuts one document.
type cutter struct {
	body    string
	counter retrieval.Counter
	outline outline
	runs    []run // of the current window
	merged  []run // of all windows, after merging
}

// Cut divides body into chunks of at most MaxTokens, and returns its first heading of level 1 as
// the title. Every byte that is not white space is in exactly one chunk, except that parts of a
// table, a listing or a function repeat its head. It uses only Markdown, Form and Lang of d.
func Cut(body string, d Document, counter retrieval.Counter) (chunks []Chunk, title string) {
	c := &cutter{body: body, counter: counter}
	if d.Form == extract.Code {
		c.sections(c.codeBlocks(d.Lang))
	} else {
		var titles []textTitle
		if !d.Markdown && d.Form == extract.Plain {
			titles = textTitles(body)
		}
		for start, end := range windows(body) {
			c.sections(blocksOf(d, body[start:end], start, titles))
		}
	}
	for _, r := range c.merged {
		if text := c.text(r); text != "" {
			chunks = append(chunks, Chunk{Section: strings.Join(r.path, " > "), Text: text})
		}
	}
	return chunks, c.outline.title
}

// blocksOf returns the blocks of a window. start is where it starts in the body; titles are those
// of a plain text.
func blocksOf(d Document, window string, start int, titles []textTitle) []block {
	var blocks []block
	ok := false
	if d.Markdown {
		blocks, ok = markdownBlocks(window)
	}
	switch {
	case ok:
	case d.Form == extract.Records && !d.Markdown:
		blocks = recordBlocks(window)
	default:
		blocks = textBlocks(window, start, titles)
	}
	for i := range blocks {
		blocks[i].start += start
		blocks[i].end += start
	}
	return blocks
}

// sections packs the blocks of a window, heading by heading. A heading that is directly followed
// by another goes into one chunk with it.
func (c *cutter) sections(blocks []block) {
	o := &c.outline
	var units []unit
	for i := range blocks {
		b := &blocks[i]
		if b.declares || i > 0 && blocks[i-1].declares {
			c.pack(o.path(), units)
			*o, units = outline{headings: []heading{{1, b.heading}}}, nil
		} else if b.level > 0 {
			if i > 0 && blocks[i-1].level == 0 {
				c.pack(o.path(), units)
				units = nil
			}
			o.enter(b.level, b.heading)
		}
		units = append(units, unit{start: b.start, end: b.end, of: b, first: true, last: true, leads: b.leads || b.level > 0, tokens: -1})
	}
	c.pack(o.path(), units)
	c.merge()
}

// An outline holds the headings above a position in a document.
type outline struct {
	title    string // the first heading of level 1; not part of a path
	titled   bool
	headings []heading
}

type heading struct {
	level int
	text  string // "" for the title, or for code that declares nothing
}

func (o *outline) enter(level int, text string) {
	o.headings = slices.DeleteFunc(o.headings, func(h heading) bool { return h.level >= level })
	if level == 1 && !o.titled {
		o.title, o.titled, text = text, true, ""
	}
	o.headings = append(o.headings, heading{level, text})
}

func (o *outline) path() (path []string) {
	for _, h := range o.headings {
		if h.text != "" {
			path = append(path, h.text)
		}
	}
	return path
}

// pack makes runs of units, each as long as MaxTokens allows. A heading, or a term before its
// definition, ends a run only if nothing of what follows fits.
func (c *cutter) pack(path []string, units []unit) {
	slices.Reverse(units) // a stack: the next unit is the last
	for len(units) > 0 {
		n, r := c.fit(units)
		if n < len(units) && (n == 0 || units[len(units)-n].leads) {
			at := len(units) - 1 - n
			if parts := c.split(units[at]); parts != nil {
				slices.Reverse(parts)
				units = slices.Replace(units, at, at+1, parts...)
				continue
			}
			if n == 0 {
				n, r = 1, c.run(units, 1)
			}
		}
		r.path, r.declares = path, units[len(units)-1].of.declares
		c.runs = append(c.runs, r)
		units = units[:len(units)-n]
	}
}

// fit returns how many units from the top of the stack go into one chunk.
func (c *cutter) fit(stack []unit) (n int, r run) {
	top := func(i int) *unit { return &stack[len(stack)-1-i] }
	sum, counted := 0, 0
	if first := top(0); !first.first {
		sum = c.count(first.of.head)
	}
	for ; n < len(stack); n++ {
		if top(n).end-top(0).start <= MaxTokens {
			continue // not more bytes than the allowed tokens, so no need to count
		}
		for ; counted <= n; counted++ {
			sum += c.countUnit(top(counted))
		}
		if sum > MaxTokens {
			break
		}
	}
	for ; n > 0; n-- {
		if r = c.run(stack, n); c.holds(r) {
			break
		}
	}
	if whole := wholeUnits(stack, n); whole < n {
		if shorter := c.run(stack, whole); c.holds(shorter) {
			return whole, shorter
		}
	}
	return n, r
}

// wholeUnits returns how many of the n units on top of the stack stay in the chunk if the last
// ones move to the next chunk with what they introduce; n if none would stay.
func wholeUnits(stack []unit, n int) int {
	if n == len(stack) {
		return n
	}
	for i := n; i > 0; i-- {
		if !stack[len(stack)-i].leads {
			return i
		}
	}
	return n
}

// run returns the run of the n units on top of the stack.
func (c *cutter) run(stack []unit, n int) run {
	first, last := stack[len(stack)-1], stack[len(stack)-n]
	r := run{start: first.start, end: last.end, tokens: -1, headingOnly: true}
	if !first.first {
		r.head = first.of.head
		r.inLine = first.start > 0 && c.body[first.start-1] != '\n'
	}
	if !last.last {
		r.tail = last.of.tail
	}
	for _, u := range stack[len(stack)-n:] {
		r.headingOnly = r.headingOnly && u.of.level > 0
	}
	return r
}

// holds reports whether a run whose parts add up to at most MaxTokens is within MaxTokens. Counts
// of parts that meet at a line break add up exactly; otherwise it counts the whole.
func (c *cutter) holds(r run) bool {
	atLine := r.end == len(c.body) || c.body[r.end-1] == '\n'
	if r.head == "" && r.tail == "" && !r.inLine && atLine {
		return true
	}
	text := c.text(r)
	return len(text) <= MaxTokens || c.count(text) <= MaxTokens
}

// split divides a unit that is too long; it returns nil if it has no parts.
func (c *cutter) split(u unit) (parts []unit) {
	if u.depth == 0 && len(u.of.head) > 0 && c.count(u.of.head) > MaxTokens/4 {
		u.of.head, u.of.tail = "", "" // too long to be repeated
	}
	for splitters := splittersOf(*u.of); u.depth < len(splitters); u.depth++ {
		texts := splitters[u.depth](c.body[u.start:u.end])
		if len(texts) < 2 {
			continue
		}
		at, opens := u.start, u.first && u.of.opens(u.depth)
		for i, t := range texts {
			parts = append(parts, unit{
				start: at, end: at + len(t), of: u.of, depth: u.depth + 1, tokens: -1,
				first: u.first && i == 0, last: u.last && i == len(texts)-1,
				leads: i == len(texts)-1 && u.leads || opens,
			})
			at += len(t)
			opens = opens && strings.TrimSpace(t) == "" // a document may begin with blank lines
		}
		return parts
	}
	return nil
}

func (c *cutter) count(text string) int {
	n, _ := c.counter.Count(text)
	return n
}

func (c *cutter) countUnit(u *unit) int {
	if u.tokens < 0 {
		u.tokens = c.count(c.body[u.start:u.end])
		if c.body[u.start] == '/' { // its token may include the preceding line break
			u.tokens++
		}
	}
	return u.tokens
}

func (c *cutter) countRun(r *run) int {
	if r.tokens < 0 {
		r.tokens = c.count(r.head + c.body[r.start:r.end] + r.tail)
	}
	return r.tokens
}

// text returns the chunk's text as in the document, without surrounding blank lines.
func (c *cutter) text(r run) string {
	text := strings.TrimRightFunc(c.body[r.start:r.end], unicode.IsSpace)
	if r.inLine {
		text = strings.TrimLeft(text, " \t")
	}
	if text == "" {
		return ""
	}
	return r.head + text[extract.BlankLines(text):] + r.tail
}

// merge joins small chunks with a neighbour under the same heading.
func (c *cutter) merge() {
	for _, b := range c.runs {
		if n := len(c.merged); n > 0 && c.mergeable(&c.merged[n-1], &b) {
			a := &c.merged[n-1]
			a.path = mergedPath(*a, b)
			a.end, a.tokens = b.end, a.tokens+b.tokens
			a.headingOnly = a.headingOnly && b.headingOnly
			a.declares = a.declares || b.declares
			continue
		}
		c.merged = append(c.merged, b)
	}
	c.runs = c.runs[:0]
}

func (c *cutter) mergeable(a, b *run) bool {
	if a.tail != "" || b.head != "" || b.inLine || !related(a.path, b.path) && !a.headingOnly && !b.headingOnly {
		return false
	}
	if (b.end-a.start)/maxTokenBytes > MaxTokens {
		return false // surely too long, so no need to count
	}
	x, y := c.countRun(a), c.countRun(b)
	return x < mergedChunk && min(x, y) < smallChunk && x+y <= MaxTokens
}

// maxTokenBytes exceeds the average length of a token in any text with words.
const maxTokenBytes = 16

// related reports whether two neighbours have the same parent heading, or one is below the other.
// Pages are ignored: they are below all headings.
func related(a, b []string) bool {
	a, b = withoutPages(a), withoutPages(b)
	n := commonPrefix(a, b)
	return n == len(a) || len(a) == len(b) && n == len(a)-1
}

// mergedPath returns the heading path of two merged chunks: the path of the dominating one, or
// else the common part of both paths.
func mergedPath(a, b run) []string {
	switch {
	case a.declares || b.declares:
		return mergedNames(a.path, b.path)
	case a.headingOnly || a.tokens < smallChunk && b.tokens >= 2*smallChunk:
		return b.path
	case b.headingOnly || b.tokens < smallChunk && a.tokens >= 2*smallChunk:
		return a.path
	}
	return withPages(a.path[:commonPrefix(a.path, b.path)], a.path, b.path)
}

func commonPrefix(a, b []string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
