// Package chunk cuts a document into chunks along its own structure: headings, tables,
// listings, records and the declarations of source code.
package chunk

import (
	"slices"
	"strings"
	"unicode"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/extract"
)

const (
	// MaxTokens is the size limit of a chunk.
	MaxTokens = 400
	// smallChunk is the size in tokens below which a chunk is merged with a neighbour: a
	// heading and a line of text answer little on their own.
	smallChunk = 100
	// mergedChunk is the size from which on a chunk is not merged any more: it answers well
	// alone, and one about many things is found for none of them.
	mergedChunk = 200
)

// A Chunk is a part of a document that is found and shown on its own.
type Chunk struct {
	Section string // heading path below the title
	Text    string
	Counts  []Count // of tokens in Text; Cut leaves them empty
}

// A Count is the number of tokens of a text, and the name of the counter that counted them.
type Count struct {
	Counter string
	Tokens  int
}

// CounterName names the counter of an encoding in one version of Sidenote: counts by
// another version, such as another release, have other names and are not taken for these.
func CounterName(version, encoding string) string { return string(document.Fields(version, encoding)) }

// A unit is a block, or a part of a block that was too long.
type unit struct {
	start, end  int
	of          *block
	depth       int  // how often it was split: the number of the next splitter to try
	first, last bool // of its block
	tokens      int  // -1 until counted
}

// A run is a chunk being made: neighbouring units under one heading path.
type run struct {
	path        []string
	declares    bool // path is names of declarations, not headings above each other
	start, end  int
	head, tail  string
	inLine      bool // starts inside a line
	headingOnly bool
	tokens      int // -1 until counted
}

// A cutter cuts one document.
type cutter struct {
	body    string
	counter retrieval.Counter
	outline outline
	runs    []run // of the window
	merged  []run // of those before
}

// Cut cuts body into chunks of at most MaxTokens, and returns its first
// heading of level 1. Every byte that is not blank stands in exactly one chunk; a
// part of a table, of fenced code or of a function repeats what it needs to be
// read as such. d is read only for how body is written: Markdown, Form and Lang.
func Cut(body string, d document.Document, counter retrieval.Counter) (chunks []Chunk, title string) {
	c := &cutter{body: body, counter: counter}
	if d.Form == extract.Code {
		c.sections(c.codeBlocks(d.Lang))
	} else {
		for start, end := range windows(body) {
			c.sections(blocksOf(d, body[start:end], start))
		}
	}
	for _, r := range c.merged {
		if text := c.text(r); text != "" {
			chunks = append(chunks, Chunk{Section: strings.Join(r.path, " > "), Text: text})
		}
	}
	return chunks, c.outline.title
}

// blocksOf returns the blocks of a window that starts at a place in the body.
func blocksOf(d document.Document, window string, start int) []block {
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
		blocks = textBlocks(window)
	}
	for i := range blocks {
		blocks[i].start += start
		blocks[i].end += start
	}
	return blocks
}

// sections packs the blocks of a window under each heading. Headings that nothing
// but a heading follows go along with that one.
func (c *cutter) sections(blocks []block) {
	o := &c.outline
	var units []unit
	for i := range blocks {
		b := &blocks[i]
		if b.declares || i > 0 && blocks[i-1].declares {
			c.pack(o.path(), units)
			*o, units = declared(b.heading), nil
		} else if b.level > 0 {
			if i > 0 && blocks[i-1].level == 0 {
				c.pack(o.path(), units)
				units = nil
			}
			o.enter(b.level, b.heading)
		}
		units = append(units, unit{start: b.start, end: b.end, of: b, first: true, last: true, tokens: -1})
	}
	c.pack(o.path(), units)
	c.merge()
}

// An outline is the headings above a place in a document.
type outline struct {
	title    string // the first heading of level 1; not part of a path
	titled   bool
	headings []heading
}

type heading struct {
	level int
	text  string // "" is the title
}

func (o *outline) enter(level int, text string) {
	for len(o.headings) > 0 && o.headings[len(o.headings)-1].level >= level {
		o.headings = o.headings[:len(o.headings)-1]
	}
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

// pack makes runs of units, each as long as MaxTokens allow. A heading is not
// left alone while anything of what it heads fits beside it.
func (c *cutter) pack(path []string, units []unit) {
	slices.Reverse(units) // a stack: the next unit is the last
	for len(units) > 0 {
		n, r := c.fit(units)
		if n < len(units) && (n == 0 || r.headingOnly) {
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
			continue // no more bytes than tokens allowed: nothing to count
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
			return n, r
		}
	}
	return 0, run{}
}

// run returns the chunk of the n units on top of the stack.
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

// holds tells whether the limit holds for a run whose parts add up to no more.
// Counts add exactly where lines meet; elsewhere the whole is counted.
func (c *cutter) holds(r run) bool {
	atLine := r.end == len(c.body) || c.body[r.end-1] == '\n'
	if r.head == "" && r.tail == "" && !r.inLine && atLine {
		return true
	}
	text := c.text(r)
	return len(text) <= MaxTokens || c.count(text) <= MaxTokens
}

// split returns the parts of a unit that is too long, nil if it has none.
func (c *cutter) split(u unit) (parts []unit) {
	if u.depth == 0 && len(u.of.head) > 0 && c.count(u.of.head) > MaxTokens/4 {
		u.of.head, u.of.tail = "", "" // too long to repeat
	}
	for splitters := splittersOf(*u.of); u.depth < len(splitters); u.depth++ {
		texts := splitters[u.depth](c.body[u.start:u.end])
		if len(texts) < 2 {
			continue
		}
		at := u.start
		for i, t := range texts {
			parts = append(parts, unit{
				start: at, end: at + len(t), of: u.of, depth: u.depth + 1, tokens: -1,
				first: u.first && i == 0, last: u.last && i == len(texts)-1,
			})
			at += len(t)
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
		if c.body[u.start] == '/' { // joins with the line break before it
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

// text returns what the chunk says: as it stands in the document, without blank
// lines around it.
func (c *cutter) text(r run) string {
	text := strings.TrimRightFunc(c.body[r.start:r.end], unicode.IsSpace)
	if r.inLine {
		text = strings.TrimLeft(text, " \t")
	}
	for {
		line, rest, found := strings.Cut(text, "\n")
		if !found || strings.TrimSpace(line) != "" {
			break
		}
		text = rest
	}
	if text == "" {
		return ""
	}
	return r.head + text + r.tail
}

// merge joins neighbours that are small with what stands beside them under the
// same heading.
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
		return false // not worth a count
	}
	x, y := c.countRun(a), c.countRun(b)
	return x < mergedChunk && min(x, y) < smallChunk && x+y <= MaxTokens
}

// maxTokenBytes is more than a token of any text with words has on average.
const maxTokenBytes = 16

// related tells whether two neighbours have the same parent, or one heads the other.
func related(a, b []string) bool {
	n := commonPrefix(a, b)
	return n == len(a) || len(a) == len(b) && n == len(a)-1
}

// mergedPath returns the heading path of two chunks in one: that of the one which
// is nearly all of it, or what they share.
func mergedPath(a, b run) []string {
	switch {
	case a.declares || b.declares:
		return mergedNames(a.path, b.path)
	case a.headingOnly || a.tokens < smallChunk && b.tokens >= 2*smallChunk:
		return b.path
	case b.headingOnly || b.tokens < smallChunk && a.tokens >= 2*smallChunk:
		return a.path
	}
	return a.path[:commonPrefix(a.path, b.path)]
}

func commonPrefix(a, b []string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
