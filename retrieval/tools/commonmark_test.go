package tools_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"

	"sidenote/retrieval/tools"
)

// Code is recognised like a CommonMark parser does, in documents as models write them: every fence
// and code span is closed, spans within their line.
func TestCommonMark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		for range rapid.IntRange(1, 5).Draw(t, "blocks") {
			lines = append(append(lines, drawBlock(t)...), "")
		}
		document := strings.Join(lines, "\n")
		const call = "<search><query>q</query></search>"
		var s tools.XMLScanner
		s.Reset(all())
		left, _ := scan(t, &s, strings.ReplaceAll(document, "MARK", call))
		var got []bool // by mark: it is in code
		for rest := strings.ReplaceAll(document, "MARK", call); ; {
			before, after, found := strings.Cut(rest, call)
			if !found {
				break
			}
			left = strings.TrimPrefix(left, before)
			var code bool
			left, code = strings.CutPrefix(left, call)
			got, rest = append(got, code), after
		}
		if diff := cmp.Diff(codeByParser(document), got); diff != "" {
			t.Fatalf("%s\n%s", document, diff)
		}
	})
}

// codeByParser reports for each MARK in a document whether it is in code.
func codeByParser(document string) (code []bool) {
	source := []byte(document)
	in := make([]bool, len(source))
	mark := func(segment text.Segment) {
		for i := segment.Start; i < segment.Stop; i++ {
			in[i] = true
		}
	}
	err := ast.Walk(goldmark.New().Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			for i := range n.Lines().Len() {
				mark(n.Lines().At(i))
			}
		case *ast.Text:
			if n.Parent().Kind() == ast.KindCodeSpan {
				mark(n.Segment)
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		panic(err)
	}
	for at := 0; ; at++ {
		i := strings.Index(document[at:], "MARK")
		if i < 0 {
			return code
		}
		at += i
		code = append(code, in[at])
	}
}

func drawBlock(t *rapid.T) []string {
	switch rapid.IntRange(0, 4).Draw(t, "block") {
	case 0:
		return drawFence(t)
	case 1:
		marker := rapid.SampledFrom([]string{"- ", "* ", "+ ", "1. ", "12) "}).Draw(t, "marker")
		inner := []string{drawLine(t)}
		if rapid.Bool().Draw(t, "fence first") {
			inner = nil
		}
		inner = append(inner, drawFence(t)...)
		for i := 1; i < len(inner); i++ {
			inner[i] = strings.Repeat(" ", len(marker)) + inner[i]
		}
		inner[0] = marker + strings.TrimLeft(inner[0], " ")
		return append(inner, "", "end") // of the list
	case 2:
		inner := append([]string{drawLine(t)}, drawFence(t)...)
		for i := range inner {
			inner[i] = "> " + inner[i]
		}
		return inner
	}
	return []string{drawLine(t), drawLine(t)}
}

func drawFence(t *rapid.T) []string {
	mark := rapid.SampledFrom([]string{"`", "~"}).Draw(t, "fence")
	other := strings.Trim("`~", mark)
	length := rapid.IntRange(3, 5).Draw(t, "length")
	indent := func() string { return strings.Repeat(" ", rapid.IntRange(0, 3).Draw(t, "indent")) }
	lines := []string{indent() + strings.Repeat(mark, length) + rapid.SampledFrom([]string{"", "xml", " sh x ", "a~~~b"}).Draw(t, "info")}
	for range rapid.IntRange(0, 4).Draw(t, "lines") {
		lines = append(lines, rapid.SampledFrom([]string{"MARK", "", "x `MARK", "~~", "``", "- MARK", "\\", "   MARK", mark + mark, strings.Repeat(mark, length) + " x", strings.Repeat(other, length)}).Draw(t, "line"))
	}
	return append(lines, indent()+strings.Repeat(mark, length+rapid.IntRange(0, 1).Draw(t, "longer"))+rapid.SampledFrom([]string{"", " "}).Draw(t, "end"))
}

func drawLine(t *rapid.T) string {
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
		"MARK", "word", "`MARK`", "``a ` MARK``", "`a \\` MARK", "```MARK ` b```", "\\`", "\\\\", "~", "a~~~", "über", "(x)", "`~~~ MARK`",
	}), 1, 6).Draw(t, "pieces")
	return rapid.SampledFrom([]string{"w ", "``` MARK ` ``` "}).Draw(t, "start") + strings.Join(pieces, " ")
}
