package extract

import (
	"path"
	"regexp"
	"strings"
)

// readMarkdown returns a Markdown file without what its rendered page does not show. The front
// matter stays part of the text, as YAML.
func readMarkdown(name, text string) (Document, error) {
	text, err := yamlFrontMatter(text)
	_, body := SplitFrontMatter(text)
	matter := text[:len(text)-len(body)]
	mdx := strings.EqualFold(path.Ext(name), ".mdx") || importsComponents(body)
	return Document{Text: matter + shownMarkdown(body, mdx), Form: Markdown}, err
}

// shownMarkdown returns a text without HTML comments, comments of Obsidian, imports and comments of
// MDX, and data URIs. Code is left as it is, except for data URIs.
func shownMarkdown(text string, mdx bool) string {
	if !strings.Contains(text, "<!--") && !strings.Contains(text, "%%") && !strings.Contains(text, "data:") && !mdx {
		return text
	}
	var out, prose strings.Builder
	flush := func() {
		out.WriteString(withoutHidden(prose.String(), mdx))
		prose.Reset()
	}
	fence, comment := "", false
	for line := range strings.Lines(text) {
		mark := fenceOf(line)
		switch {
		case fence != "":
			out.WriteString(withoutPayload(line))
			if strings.HasPrefix(mark, fence) && strings.TrimSpace(line) == mark {
				fence = ""
			}
			continue
		case mark != "" && !comment:
			flush()
			fence = mark
			out.WriteString(line)
			continue
		}
		prose.WriteString(line)
		comment = inComment(line, comment)
	}
	flush()
	return out.String()
}

// fenceOf returns the run of backticks or tildes that a line begins with, if it is a fence.
func fenceOf(line string) string {
	text := strings.TrimLeft(line, " ")
	if len(line)-len(text) > 3 {
		// The fence of a listing in a list item may be indented further.
		text = strings.TrimLeft(line, " \t")
	}
	for _, c := range []string{"`", "~"} {
		rest := strings.TrimLeft(text, c)
		n := len(text) - len(rest)
		if n >= 3 && (c == "~" || !strings.Contains(rest, c)) {
			return text[:n]
		}
	}
	return ""
}

// inComment reports whether a comment is open at the end of a line.
func inComment(line string, open bool) bool {
	for {
		mark := "<!--"
		if open {
			mark = "-->"
		}
		_, rest, found := strings.Cut(line, mark)
		if !found {
			return open
		}
		line, open = rest, !open
	}
}

var (
	// dataLink is a link or an image with a data URI.
	dataLink = regexp.MustCompile(`!?\[([^\[\]\n]*)\]\(\s*<?data:[^\s)>]*>?(?:\s+(?:"[^"\n]*"|'[^'\n]*'))?\s*\)`)
	// dataDefinition is a reference definition of one.
	dataDefinition = regexp.MustCompile(`(?m)^ {0,3}\[[^\]\n]+\]:\s*<?data:.*\n?`)
	// dataBase64 is any other data URI of binary data.
	dataBase64 = regexp.MustCompile(`(data:[\w/+.-]+(?:;[\w=.-]+)*;base64,)[\w+/=%-]+`)
	// importLine is an import of an ES module.
	importLine = regexp.MustCompile(`^import\s+(?:[\w${}\s,*]+\s+from\s+)?['"][^'"\n]+['"];?\s*$`)
)

// withoutPayload shortens the data URIs of a listing.
func withoutPayload(text string) string {
	if !strings.Contains(text, ";base64,") {
		return text
	}
	return dataBase64.ReplaceAllString(text, "$1…")
}

// withoutHidden returns prose without what is not shown.
func withoutHidden(text string, mdx bool) string {
	if strings.Contains(text, "data:") {
		text = dataDefinition.ReplaceAllString(text, "")
		text = dataLink.ReplaceAllString(text, "$1")
		text = dataBase64.ReplaceAllString(text, "")
	}
	if mdx {
		text = withoutModules(text)
	}
	return withoutComments(text, mdx)
}

// importsComponents reports whether a Markdown text begins with an import, as pages of Docusaurus do.
func importsComponents(body string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(body, "\n"), "\n")
	return importLine.MatchString(first)
}

// withoutModules removes the paragraphs of MDX that import or export.
func withoutModules(text string) string {
	var b strings.Builder
	module, blank := false, true
	for line := range strings.Lines(text) {
		empty := strings.TrimSpace(line) == ""
		if blank || module {
			module = !empty && (module || strings.HasPrefix(line, "import ") || strings.HasPrefix(line, "export "))
		}
		if !module {
			b.WriteString(line)
		}
		blank = empty
	}
	return b.String()
}

// withoutComments removes comments outside of code spans: those of HTML, the ones between %% that
// Obsidian has, and in MDX those in braces.
func withoutComments(text string, mdx bool) string {
	var b strings.Builder
	spans := newSpans(text)
	lastComment, lastBraces := strings.LastIndex(text, "-->"), strings.LastIndex(text, "*/}")
	for at := 0; at < len(text); {
		next := strings.IndexAny(text[at:], "`<%{")
		if next < 0 {
			b.WriteString(text[at:])
			break
		}
		b.WriteString(text[at : at+next])
		at += next
		rest := text[at:]
		skip, keep := 0, 1
		switch {
		case rest[0] == '`':
			keep = spans.length(at)
		case strings.HasPrefix(rest, "<!--"):
			skip = htmlComment(text, at, lastComment)
		case strings.HasPrefix(rest, "%%"):
			if skip = obsidianComment(text, at); skip == 0 {
				keep = 2
			}
		case mdx && strings.HasPrefix(rest, "{/*") && at < lastBraces:
			skip = strings.Index(rest, "*/}") + len("*/}")
		}
		if skip == 0 {
			b.WriteString(rest[:keep])
			skip = keep
		}
		at += skip
	}
	return b.String()
}

// htmlComment returns the length of the comment at a position; 0 if it is none. last is where the
// last comment is closed. One at the start of a line that is not closed goes to the end of the text
// (CommonMark 0.31, 4.6).
func htmlComment(text string, at, last int) int {
	const open, closed = "<!--", "-->"
	if at+len(open) <= last {
		return len(open) + strings.Index(text[at+len(open):], closed) + len(closed)
	}
	if before := strings.TrimRight(text[:at], " "); before == "" || strings.HasSuffix(before, "\n") {
		return len(text) - at
	}
	return 0
}

// obsidianComment returns the length of the comment at a position; 0 if it is none. It begins after
// a space, and ends before one or before punctuation. One that begins a line may have several.
func obsidianComment(text string, at int) int {
	before := text[:at]
	if before != "" && !strings.ContainsAny(before[len(before)-1:], " \t\n(") {
		return 0
	}
	body := text[at+2:]
	if before != "" && !strings.HasSuffix(before, "\n") {
		body, _, _ = strings.Cut(body, "\n")
	}
	end := strings.Index(body, "%%")
	if end < 0 {
		return 0
	}
	after := body[end+2:]
	if after != "" && !strings.ContainsAny(after[:1], " \t\n.,;:!?)") {
		return 0
	}
	return 2 + end + 2
}

// spans finds code spans: a run of backticks up to the next run of the same length in the paragraph.
type spans struct {
	text string
	runs map[int][]int // ends of runs of backticks, by length
}

func newSpans(text string) spans {
	s := spans{text: text, runs: map[int][]int{}}
	for at := 0; at < len(text); {
		n := len(text[at:]) - len(strings.TrimLeft(text[at:], "`"))
		if n > 0 {
			s.runs[n] = append(s.runs[n], at+n)
			at += n
			continue
		}
		next := strings.IndexByte(text[at:], '`')
		if next < 0 {
			break
		}
		at += next
	}
	return s
}

// length returns the length of the code span at a position, or of its backticks if it does not end.
// Positions must not decrease.
func (s spans) length(at int) int {
	n := len(s.text[at:]) - len(strings.TrimLeft(s.text[at:], "`"))
	ends := s.runs[n]
	for len(ends) > 0 && ends[0] <= at+n {
		ends = ends[1:]
	}
	s.runs[n] = ends
	if len(ends) == 0 || strings.Contains(s.text[at:ends[0]], "\n\n") {
		return n
	}
	return ends[0] - at
}
