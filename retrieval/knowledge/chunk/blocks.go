package chunk

import (
	"cmp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"sidenote/retrieval/knowledge/extract"
)

// A block is a part of a document that should not be cut, such as a paragraph or a table. Blocks
// are contiguous: blank lines belong to the block before them.
type block struct {
	start, end int // in the body
	level      int // level of the heading, from 1; 0 if it is none
	lined      bool
	head, tail string // added to each part of a divided block: the fences of a listing, the head of a table
	heading    string // text of the heading, or name of what the block declares
	declares   bool   // whether the block is source code
	leads      bool   // whether it introduces the next block, like a term before its definition
}

// markdownParser parses blocks and tables. It does not parse inline markup, which is not needed to
// find blocks. Its state is in the context of each parse.
var markdownParser = parser.NewParser(
	parser.WithBlockParsers(parser.DefaultBlockParsers()...),
	parser.WithParagraphTransformers(
		util.Prioritized(extension.NewTableParagraphTransformer(), 200),
	),
)

// markdownBlocks returns the blocks of body. ok is false if the parser failed.
func markdownBlocks(body string) (blocks []block, ok bool) {
	// Hostile text may make the parser panic; that must not end the process.
	defer func() {
		if recover() != nil {
			blocks, ok = nil, false
		}
	}()
	if tooDeep(body) {
		return nil, false
	}
	source := []byte(body)
	root := markdownParser.Parse(text.NewReader(source))
	var nodes []ast.Node // by block
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		start, found := startOf(n)
		if !found {
			continue // it has no source text
		}
		start = strings.LastIndexByte(body[:start], '\n') + 1
		if len(blocks) == 0 {
			start = 0
		} else if last := &blocks[len(blocks)-1]; start <= last.start {
			continue // on the same line as the previous block
		} else {
			last.end = start
		}
		blocks, nodes = append(blocks, block{start: start, end: len(body)}), append(nodes, n)
	}
	if len(blocks) == 0 && body != "" {
		blocks = []block{{end: len(body)}}
	}
	for i, n := range nodes {
		blocks[i].describe(n, source)
		blocks[i].leads = i+1 < len(nodes) && n.Kind() == ast.KindParagraph &&
			(!endsBlank(body[blocks[i].start:blocks[i].end]) || strings.HasPrefix(body[blocks[i].end:], ": "))
	}
	return blocks, true
}

// endsBlank reports whether the last line of a text is blank.
func endsBlank(text string) bool {
	text = strings.TrimSuffix(text, "\n")
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]) == ""
}

// maxContainers is the nesting limit of quotes and lists. The parser's work is quadratic in the
// depth.
const maxContainers = 100

// tooDeep reports whether a line of body opens more than maxContainers, or is indented as if it
// did.
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

// startOf returns the offset in the source at which a block begins.
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

// describe sets the fields of a block that follow from the kind of n.
func (b *block) describe(n ast.Node, source []byte) {
	body := string(source[b.start:b.end])
	lines := strings.SplitAfterN(body[extract.BlankLines(body):], "\n", 3) // the first block includes leading blank lines
	switch n := n.(type) {
	case *ast.Heading:
		b.level = n.Level
		b.heading = plain(string(n.Lines().Value(source)))
	case *ast.FencedCodeBlock:
		b.lined = true
		if len(lines) > 1 {
			b.head = lines[0]
			fence := strings.TrimLeft(b.head, " ")
			b.tail = "\n" + b.head[:len(b.head)-len(fence)] + fence[:len(fence)-len(strings.TrimLeft(fence, fence[:1]))]
		}
	case *extast.Table:
		b.lined = true
		if len(lines) > 2 {
			b.head = lines[0] + lines[1]
		}
	case *ast.CodeBlock, *ast.List, *ast.HTMLBlock:
		b.lined = true
	}
}

// plain removes markup from a heading: emphasis, code and a trailing anchor such as {#id}.
func plain(s string) string {
	if i := strings.LastIndex(s, "{#"); i >= 0 && strings.HasSuffix(strings.TrimSpace(s), "}") {
		s = s[:i]
	}
	return strings.TrimSpace(strings.NewReplacer("**", "", "__", "", "`", "").Replace(s))
}

// recordBlocks returns the paragraphs of a text whose lines are fields. Each part of a divided
// paragraph repeats its first line, which usually identifies the record. A line starting with "##
// " on its own is the section of the records below it.
func recordBlocks(body string) []block {
	blocks := appendParagraphs(nil, body, 0, len(body))
	for i := range blocks {
		b := &blocks[i]
		text := strings.TrimSpace(body[b.start:b.end])
		if name, ok := strings.CutPrefix(text, "## "); ok && !strings.Contains(name, "\n") {
			b.level, b.heading = 2, name
			continue
		}
		b.lined = true
		if line, rest, _ := strings.Cut(body[b.start:b.end], "\n"); strings.TrimSpace(rest) != "" {
			b.head = line + "\n"
		}
	}
	return blocks
}

// textBlocks returns the titles and paragraphs of a window of a plain text. offset is where the
// window starts in the body.
func textBlocks(window string, offset int, titles []textTitle) (blocks []block) {
	i, _ := slices.BinarySearchFunc(titles, offset, func(t textTitle, at int) int { return cmp.Compare(t.start, at) })
	at := 0
	for _, t := range titles[i:] {
		if t.end-offset > len(window) {
			break
		}
		blocks = appendParagraphs(blocks, window, at, t.start-offset)
		at = t.end - offset
		blocks = append(blocks, block{start: t.start - offset, end: at, level: t.level, heading: t.text})
	}
	return appendParagraphs(blocks, window, at, len(window))
}

// appendParagraphs appends the paragraphs of a part of a text.
func appendParagraphs(blocks []block, text string, start, end int) []block {
	blank := false
	at := start
	for line := range strings.Lines(text[start:end]) {
		empty := strings.TrimSpace(line) == ""
		if blank && !empty && at > start {
			blocks = append(blocks, block{start: start, end: at})
			start = at
		}
		blank = empty
		at += len(line)
	}
	if start < end {
		blocks = append(blocks, block{start: start, end: end})
	}
	return blocks
}
