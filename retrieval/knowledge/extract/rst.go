package extract

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxRSTDepth is the nesting limit of lists, definitions and directives; deeper levels are text.
const maxRSTDepth = 20

// A writer writes the Markdown of one document.
type writer struct {
	out    strings.Builder
	styles []string // of titles, in order of their levels
}

// rstToMarkdown converts reStructuredText whose line breaks are line feeds to Markdown. It takes
// time and memory proportional to the text.
func rstToMarkdown(text string) string {
	w := &writer{}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, untab(strings.TrimRightFunc(line, unicode.IsSpace)))
	}
	w.body(lines, "", 0)
	return w.out.String()
}

// untab replaces leading tabs; tab stops are 8 columns apart.
func untab(line string) string {
	text := strings.TrimLeft(line, " \t")
	indent := 0
	for _, c := range line[:len(line)-len(text)] {
		if indent++; c == '\t' {
			indent += 7 - (indent-1)%8
		}
	}
	return strings.Repeat(" ", min(indent, maxRSTIndent)) + text
}

// maxRSTIndent is the deepest indent that is distinguished from deeper ones.
const maxRSTIndent = 200

// line writes one line after prefix.
func (w *writer) line(prefix, text string) {
	w.out.WriteString(strings.TrimRight(prefix+text, " "))
	w.out.WriteByte('\n')
}

// gap writes a blank line, unless there is one.
func (w *writer) gap() {
	if s := w.out.String(); s != "" && !strings.HasSuffix(s, "\n\n") {
		w.out.WriteByte('\n')
	}
}

// body writes the blocks in lines, with prefix before each line.
func (w *writer) body(lines []string, prefix string, depth int) {
	for len(lines) > 0 {
		lines = lines[w.block(lines, prefix, depth):]
	}
}

// block writes the block at the start of lines, and returns its number of lines.
func (w *writer) block(lines []string, prefix string, depth int) int {
	first := lines[0]
	if first == "" {
		w.gap()
		return 1
	}
	if depth > maxRSTDepth {
		w.line(prefix, markdownLiteral(strings.TrimSpace(first)))
		return 1
	}
	if first[0] == ' ' { // a quote
		inner, n := indented(lines)
		w.body(inner, prefix, depth+1)
		return n
	}
	if depth == 0 {
		if strings.HasPrefix(first, ":orphan:") || strings.HasPrefix(first, ":tocdepth:") {
			return 1
		}
		if n := w.title(lines); n > 0 {
			return n
		}
	}
	if strings.HasPrefix(first, ".. ") || first == ".." {
		return w.explicit(lines, prefix, depth)
	}
	if n := w.table(lines, prefix); n > 0 {
		return n
	}
	if strings.HasPrefix(first, ">>> ") {
		n := untilBlank(lines)
		w.listing("pycon", lines[:n], prefix)
		return n
	}
	if marker, rest := itemMarker(first); marker != "" {
		return w.item(lines, marker, rest, prefix, depth)
	}
	return w.paragraph(lines, prefix, depth)
}

// title writes a section title, and returns its number of lines; 0 if there is none.
func (w *writer) title(lines []string) int {
	style, text, n := "", "", 0
	switch {
	case len(lines) > 2 && adornment(lines[0]) && lines[2] == lines[0] && fits(strings.TrimSpace(lines[1]), lines[0]):
		style, text, n = lines[0][:1]+lines[0][:1], lines[1], 3
	case len(lines) > 1 && adornment(lines[1]) && fits(lines[0], lines[1]) && !adornment(lines[0]):
		style, text, n = lines[1][:1], lines[0], 2
	case adornment(lines[0]) && len(lines[0]) >= 4: // a transition
		w.gap()
		return 1
	default:
		return 0
	}
	level := slices.Index(w.styles, style)
	if level < 0 {
		level = len(w.styles)
		w.styles = append(w.styles, style)
	}
	w.gap()
	w.line("", strings.Repeat("#", min(level+1, 6))+" "+inline(strings.TrimSpace(text)))
	w.gap()
	return n
}

// adornment reports whether a line consists of one punctuation character, at least twice.
func adornment(line string) bool {
	return len(line) > 1 && strings.IndexByte("=-`:.'\"~^_*+#<>!$%&(),/;?@[\\]{|}", line[0]) >= 0 && strings.Trim(line, line[:1]) == ""
}

// fits reports whether the underline of a title is long enough, or nearly: docutils accepts a
// short one of at least four characters with a warning.
func fits(title, underline string) bool {
	n := utf8.RuneCountInString(title)
	return title != "" && (len(underline) >= n || len(underline) >= 4 && len(underline)*2 >= n)
}

// indented returns the leading lines that are blank or indented, without their common indent, and
// their number. Trailing blank lines are not included.
func indented(lines []string) (inner []string, n int) {
	least := 0
	for i, line := range lines {
		if line == "" {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if indent == 0 {
			break
		}
		if n = i + 1; least == 0 || indent < least {
			least = indent
		}
	}
	for _, line := range lines[:n] {
		inner = append(inner, line[min(least, len(line)):])
	}
	return inner, n
}

// item writes the item of a list.
func (w *writer) item(lines []string, marker, rest, prefix string, depth int) int {
	width := len(lines[0]) - len(rest)
	n := 1
	inner := []string{rest}
	for ; n < len(lines); n++ {
		line := lines[n]
		if line != "" && len(line)-len(strings.TrimLeft(line, " ")) < width {
			break
		}
		inner = append(inner, line[min(width, len(line)):])
	}
	for len(inner) > 1 && inner[len(inner)-1] == "" {
		inner, n = inner[:len(inner)-1], n-1
	}
	var sub writer
	sub.body(inner, "", depth+1)
	for i, line := range strings.Split(strings.Trim(sub.out.String(), "\n"), "\n") {
		if i == 0 {
			w.line(prefix, marker+" "+line)
			continue
		}
		w.line(prefix+strings.Repeat(" ", len(marker)+1), line)
	}
	return n
}

// itemMarker returns the Markdown marker of a list item, "" for none, and the rest of the line.
func itemMarker(line string) (marker, rest string) {
	first, rest, ok := strings.Cut(line, " ")
	if !ok {
		return "", ""
	}
	rest = strings.TrimLeft(rest, " ")
	switch first {
	case "-", "*", "+", "•":
		return "-", rest
	case "#.":
		return "1.", rest
	}
	number := strings.TrimRight(strings.TrimLeft(first, "("), ".)")
	if number == first || number == "" || len(number) > 9 || strings.Trim(number, "0123456789") != "" {
		return "", ""
	}
	return number + ".", rest
}

// paragraph writes a paragraph, or a term with its definition, and the listing that "::"
// introduces.
func (w *writer) paragraph(lines []string, prefix string, depth int) int {
	n := 1
	for n < len(lines) && lines[n] != "" && lines[n][0] != ' ' {
		n++
	}
	text, literal := lines[:n:n], strings.HasSuffix(lines[n-1], "::")
	if literal {
		last := strings.TrimSuffix(lines[n-1], ":")
		if last = strings.TrimSpace(last); last == ":" {
			last = ""
		}
		text = append(slices.Clone(lines[:n-1]), last)
	}
	for _, line := range text {
		if line != "" {
			w.line(prefix, markdownLiteral(strings.TrimPrefix(inline(line), "| ")))
		}
	}
	if literal {
		inner, more := indented(lines[n:])
		if more > 0 {
			w.listing("", inner, prefix)
		}
		return n + more
	}
	if n < len(lines) && lines[n] != "" { // it is a term
		inner, more := indented(lines[n:])
		w.body(inner, prefix, depth+1)
		n += more
	}
	return n
}

// listing writes lines as a listing.
func (w *writer) listing(lang string, lines []string, prefix string) {
	text := strings.Trim(strings.Join(lines, "\n"), "\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	w.gap()
	for line := range strings.SplitSeq(markdownListing(lang, text), "\n") {
		w.line(prefix, line)
	}
	w.gap()
}

// untilBlank returns the number of lines before the first blank one.
func untilBlank(lines []string) int {
	if n := slices.Index(lines, ""); n >= 0 {
		return n
	}
	return len(lines)
}

// maxTableLines is how many lines are searched for the end of a simple table.
const maxTableLines = 1000

// table writes a simple or a grid table, and returns its number of lines; 0 if there is none.
func (w *writer) table(lines []string, prefix string) int {
	grid := strings.HasPrefix(lines[0], "+-") && strings.HasSuffix(lines[0], "+")
	ruled := strings.HasPrefix(lines[0], "==") && strings.Trim(lines[0], "= ") == "" && strings.Contains(lines[0], " ")
	if !grid && !ruled {
		return 0
	}
	n := untilBlank(lines)
	var starts []int // of the columns of a simple table
	for i := range len(lines[0]) {
		if ruled && lines[0][i] == '=' && (i == 0 || lines[0][i-1] == ' ') {
			starts = append(starts, i)
		}
	}
	for i := 1; ruled && i < min(len(lines), maxTableLines); i++ { // blank lines are rows, too
		if strings.HasPrefix(lines[i], "==") && (i+1 == len(lines) || lines[i+1] == "") {
			n = i + 1
			break
		}
	}
	var rows [][]string
	for _, line := range lines[:n] {
		if strings.Trim(line, "+-= |") == "" {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if ruled {
			cells = columns(line, starts)
		}
		for i := range cells {
			cells[i] = inline(strings.TrimSpace(cells[i]))
		}
		rows = append(rows, cells)
	}
	w.gap()
	for line := range strings.Lines(markdownTable(rows)) {
		w.line(prefix, strings.TrimSuffix(line, "\n"))
	}
	w.gap()
	return n
}

// columns cuts a line at the starts of columns, but not within a character.
func columns(line string, starts []int) (cells []string) {
	for i, start := range starts {
		end := len(line)
		if i+1 < len(starts) {
			end = min(end, starts[i+1])
		}
		cells = append(cells, strings.ToValidUTF8(line[min(start, end):end], ""))
	}
	return cells
}
