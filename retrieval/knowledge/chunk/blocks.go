package chunk

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// A block is a part of a document that should stay whole. The blocks of a
// document follow each other without gaps: blank lines belong to the block before.
type block struct {
	start, end int // in the body
	level      int // of a heading, from 1; 0 is no heading
	lined      bool
	head, tail string // what a part of it needs around it to be read: a fence, a table's head
	heading    string // its text, or what the block declares
	declares   bool   // a part of source code
}

// newMarkdownParser returns a parser of the outline of Markdown: blocks and
// tables, nothing within lines.
func newMarkdownParser() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithParagraphTransformers(
			util.Prioritized(extension.NewTableParagraphTransformer(), 200),
		),
	)
}

// markdownBlocks returns the blocks of body. ok is false if the parser gave up on it.
func markdownBlocks(body string) (blocks []block, ok bool) {
	// A parser of hostile text must not be the end of the process.
	defer func() {
		if recover() != nil {
			blocks, ok = nil, false
		}
	}()
	if tooDeep(body) {
		return nil, false
	}
	source := []byte(body)
	root := newMarkdownParser().Parse(text.NewReader(source))
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		start, found := startOf(n)
		if !found {
			continue // nothing in the source stands for it
		}
		start = strings.LastIndexByte(body[:start], '\n') + 1
		if len(blocks) == 0 {
			start = 0
		} else if last := &blocks[len(blocks)-1]; start <= last.start {
			continue // on the line of the block before
		} else {
			last.end = start
		}
		blocks = append(blocks, describe(n, block{start: start, end: len(body)}, source))
	}
	if len(blocks) == 0 && body != "" {
		blocks = []block{{end: len(body)}}
	}
	for i := range blocks {
		blocks[i].frame(body)
	}
	return blocks, true
}

// maxContainers is how many quotes and lists may be open at once. The parser's
// work grows with their square, and no reader follows the hundredth.
const maxContainers = 100

// tooDeep tells whether a line of body opens more containers than that, or is
// indented as if it stood in so many.
func tooDeep(body string) bool {
	for line := range strings.Lines(body) {
		if len(line) <= maxContainers {
			continue
		}
		markers, blanks := 0, 0
		for i, c := range []byte(line[:len(line)-1]) {
			opens := strings.IndexByte("-*+.)", c) >= 0 && (line[i+1] == ' ' || line[i+1] == '\t')
			if c == '>' || opens {
				markers++
			} else if c == ' ' || c == '\t' {
				blanks++
			} else if c < '0' || c > '9' {
				break
			}
		}
		if markers > maxContainers || markers > 0 && blanks > 4*maxContainers {
			return true
		}
	}
	return false
}

// startOf returns where in the source a block begins.
func startOf(n ast.Node) (at int, ok bool) {
	at = n.Pos()
	if lines := n.Lines(); lines.Len() > 0 && (at < 0 || lines.At(0).Start < at) {
		at = lines.At(0).Start
	}
	if at >= 0 {
		return at, true
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if c.Type() == ast.TypeBlock {
			if at, ok = startOf(c); ok {
				return at, true
			}
		}
	}
	return 0, false
}

// describe fills in what the kind of n says about a block.
func describe(n ast.Node, b block, source []byte) block {
	switch n := n.(type) {
	case *ast.Heading:
		b.level = n.Level
		b.heading = plain(string(n.Lines().Value(source)))
	case *ast.FencedCodeBlock:
		b.lined, b.head = true, "fence"
	case *extast.Table:
		b.lined, b.head = true, "table"
	case *ast.CodeBlock, *ast.List, *ast.HTMLBlock:
		b.lined = true
	}
	return b
}

// frame replaces the kind in head by the lines that a part of the block repeats.
func (b *block) frame(body string) {
	lines := strings.SplitAfterN(body[b.start:b.end], "\n", 3)
	switch {
	case b.head == "fence" && len(lines) > 1:
		b.head = lines[0]
		fence := strings.TrimLeft(b.head, " ")
		b.tail = "\n" + b.head[:len(b.head)-len(fence)] + fence[:len(fence)-len(strings.TrimLeft(fence, fence[:1]))]
	case b.head == "table" && len(lines) > 2:
		b.head = lines[0] + lines[1]
	default:
		b.head = ""
	}
}

// plain takes the marks from a heading that a reader of a list of headings would
// stumble over: emphasis, code, a closing anchor such as {#id}.
func plain(s string) string {
	if i := strings.LastIndex(s, "{#"); i >= 0 && strings.HasSuffix(strings.TrimSpace(s), "}") {
		s = s[:i]
	}
	return strings.TrimSpace(strings.NewReplacer("**", "", "__", "", "`", "").Replace(s))
}

// recordBlocks returns the paragraphs of a text whose lines are fields. A part of
// one repeats its first line, which is most often what tells it from the others.
func recordBlocks(body string) []block {
	blocks := textBlocks(body)
	for i := range blocks {
		b := &blocks[i]
		b.lined = true
		if line, rest, _ := strings.Cut(body[b.start:b.end], "\n"); strings.TrimSpace(rest) != "" {
			b.head = line + "\n"
		}
	}
	return blocks
}

// textBlocks returns the paragraphs of plain text.
func textBlocks(body string) (blocks []block) {
	start := 0
	blank := false
	at := 0
	for line := range strings.Lines(body) {
		empty := strings.TrimSpace(line) == ""
		if blank && !empty && at > start {
			blocks = append(blocks, block{start: start, end: at})
			start = at
		}
		blank = empty
		at += len(line)
	}
	if start < len(body) {
		blocks = append(blocks, block{start: start, end: len(body)})
	}
	return blocks
}
