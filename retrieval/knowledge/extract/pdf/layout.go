package pdf

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"sidenote/retrieval/knowledge/extract"
)

// The layout of a document is derived from letter sizes: most letters belong to its text, and
// lines that are clearly larger and short are headings.
const (
	// A heading's letters are larger than those of the text by this factor and this many points.
	headingRatio  = 1.08
	headingPoints = 0.8
	// maxHeading is the most lines of a heading; more lines in larger letters are a quotation or a
	// page of a presentation.
	maxHeading = 3
	// maxHeadingShare is the most that headings of one size may have of all letters.
	maxHeadingShare = 0.1
	// maxLevel is the level of the smallest headings. Page numbers are below all of them.
	maxLevel  = 5
	pageLevel = 6
	// paragraphGap is the least distance between paragraphs, in multiples of the letter size.
	paragraphGap = 1.7
)

// markdown returns the text, "" if there is none. Each page with text begins with its number as a
// heading below all others, and so does the text after a heading: the heading path of every text
// ends in its page.
func (c *content) markdown() string {
	c.removeRunning()
	levels := c.levels()
	var w markdown
	for _, p := range c.pages {
		w.page(p, levels)
	}
	return w.out.String()
}

// textSize returns the most frequent letter size.
func (c *content) textSize() (size float64) {
	letters := map[float64]int{}
	for _, p := range c.pages {
		for _, l := range p.lines {
			letters[l.size] += len(l.text)
		}
	}
	most := 0
	for s, n := range letters {
		if n > most || n == most && s < size {
			size, most = s, n
		}
	}
	return size
}

// levels returns the levels of headings by letter size.
func (c *content) levels() map[float64]int {
	letters, lines := map[float64]int{}, map[float64]int{}
	all := 0
	for _, p := range c.pages {
		for i, l := range p.lines {
			letters[l.size] += len(l.text)
			all += len(l.text)
			if i == 0 || p.lines[i-1].size != l.size {
				lines[l.size]++ // count only the first of adjacent lines of one size
			}
		}
	}
	text := c.textSize()
	var sizes []float64
	for size, n := range letters {
		if text > 0 && size >= max(headingRatio*text, text+headingPoints) && float64(n) <= maxHeadingShare*float64(all) {
			sizes = append(sizes, size)
		}
	}
	slices.Sort(sizes)
	slices.Reverse(sizes)
	levels := map[float64]int{}
	level := 1
	for _, size := range sizes {
		if lines[size] == 1 { // a single one is the title, or a decoration below it
			if len(levels) == 0 {
				levels[size] = 1
				level = 2
			}
			continue
		}
		if len(levels) == 0 {
			level = 2 // headings of a repeated size are not the title
		}
		levels[size] = min(level, maxLevel)
		level++
	}
	return levels
}

// A markdown is a writer for the pages of a document.
type markdown struct {
	out    strings.Builder
	marked bool // the number of the current page has been written above the next text
}

func (w *markdown) page(p page, levels map[float64]int) {
	w.marked = false
	for start := 0; start < len(p.lines); {
		end := start + 1
		for end < len(p.lines) && p.lines[end].size == p.lines[start].size {
			end++
		}
		lines := p.lines[start:end]
		if level := levels[lines[0].size]; level > 0 && isHeading(lines) {
			w.heading(level, lines)
		} else {
			w.text(p, start, end)
		}
		start = end
	}
}

// isHeading reports whether lines in large letters are a heading: few, with a word, and none of
// them from a table of contents.
func isHeading(lines []line) bool {
	letters := 0
	for _, l := range lines {
		if strings.Contains(l.text, leader) {
			return false
		}
		for _, r := range l.text {
			if unicode.IsLetter(r) {
				letters++
			}
		}
	}
	return len(lines) <= maxHeading && letters > 1
}

func (w *markdown) heading(level int, lines []line) {
	words := make([]string, len(lines))
	for i, l := range lines {
		words[i] = l.text
	}
	w.blank()
	fmt.Fprintf(&w.out, "%s %s\n", strings.Repeat("#", level), strings.Join(words, " "))
	w.marked = false
}

// text writes the lines of a page from start to end.
func (w *markdown) text(p page, start, end int) {
	if !w.marked {
		w.blank()
		fmt.Fprintf(&w.out, "%s p. %d\n", strings.Repeat("#", pageLevel), p.number)
		w.marked = true
		w.blank()
	} else if start > 0 && apart(p.lines[start-1], p.lines[start]) {
		w.blank()
	}
	for i, l := range p.lines[start:end] {
		if i > 0 && apart(p.lines[start+i-1], l) {
			w.blank()
		}
		w.out.WriteString(item(l.text))
		w.out.WriteByte('\n')
	}
}

// item returns a line as Markdown: as a list item if it starts with a bullet.
func item(text string) string {
	if mark := firstRune(text); strings.ContainsRune("•◦▪▫●○‣⁃∙·", mark) {
		if rest := strings.TrimSpace(text[len(string(mark)):]); rest != "" {
			return "- " + rest
		}
	}
	return extract.Literal(text)
}

// blank writes an empty line, except at the start.
func (w *markdown) blank() {
	if w.out.Len() > 0 {
		w.out.WriteByte('\n')
	}
}

// apart reports whether there is a gap between two lines. A line that is not below the other
// begins another column; a sentence at the end of the previous column continues there.
func apart(a, b line) bool {
	size := max(a.size, b.size)
	if size == 0 {
		return false
	}
	if down := a.bottom - b.top; down >= -size/2 {
		return down > paragraphGap*size
	}
	return !unicode.IsLower(firstRune(b.text)) || strings.HasSuffix(a.text, ".")
}

const (
	// This many lines at the top and bottom of pages may be running titles and page numbers.
	runningLines = 2
	// The very first and last lines are running titles if they recur on this many pages, as
	// chapter titles do; the others if they recur on more than half of the pages.
	runningPages = 3
)

// removeRunning removes page numbers, and lines that recur at the top or the bottom of most pages,
// ignoring numbers in them: a search would find them on every page.
func (c *content) removeRunning() {
	for i := range c.pages {
		p := &c.pages[i]
		number := strconv.Itoa(p.number)
		if n := len(p.lines); n > 1 && p.lines[n-1].text == number {
			p.lines = p.lines[:n-1]
		} else if n > 1 && p.lines[0].text == number {
			p.lines = p.lines[1:]
		}
	}
	const least = 4 // fewest pages for a decision
	if len(c.pages) < least {
		return
	}
	text := c.textSize()
	pages := map[string]int{} // number of pages that have the line at an edge
	for _, p := range c.pages {
		seen := map[string]bool{}
		for _, i := range p.edges() {
			seen[edgeKey(p, i)] = true
		}
		for key := range seen {
			pages[key]++
		}
	}
	for at := range c.pages {
		p := &c.pages[at]
		var kept []line
		edges := p.edges()
		for i, l := range p.lines {
			n := pages[edgeKey(*p, i)]
			outer := (i == 0 || i == len(p.lines)-1) && l.size <= text // larger ones are titles, as of slides
			if !slices.Contains(edges, i) || 2*n <= len(c.pages) && !(outer && n >= runningPages) {
				kept = append(kept, l)
			}
		}
		p.lines = kept
	}
}

// edges returns the indexes of the lines at the top and the bottom.
func (p page) edges() (at []int) {
	for i := range p.lines {
		if i < runningLines || i >= len(p.lines)-runningLines {
			at = append(at, i)
		}
	}
	return at
}

// edgeKey is equal for lines that differ only in numbers and are at the same height.
func edgeKey(p page, i int) string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return '0'
		}
		return r
	}, p.lines[i].text)
	return fmt.Sprintf("%.0f %s", p.lines[i].top, strings.ReplaceAll(strings.ReplaceAll(text, "00", "0"), "00", "0"))
}

// hyphen is pdfium's character for a hyphen at the end of a line; the next line follows it.
const hyphen = "\ufffe"

// leader replaces the dots between an entry of a table of contents and its page.
const leader = " … "

var leaders = regexp.MustCompile(`( ?\. ?){4,}|_{4,}`)

// unhyphenated joins words that are hyphenated at the ends of lines.
func unhyphenated(text string) string {
	for {
		before, after, found := strings.Cut(text, hyphen)
		if !found {
			return text
		}
		last, first := lastRune(before), firstRune(after)
		if unicode.IsLower(last) && unicode.IsLower(first) {
			text = before + after
		} else {
			text = before + "-" + after
		}
	}
}

func firstRune(s string) rune {
	for _, r := range s {
		return r
	}
	return 0
}

func lastRune(s string) (last rune) {
	for _, r := range s[max(0, len(s)-4):] {
		last = r
	}
	return last
}

// clean removes what is not text: control characters, and letters that the file's fonts do not map
// to Unicode. It keeps hyphen.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', unicode.Is(unicode.Zs, r):
			return ' '
		case unicode.IsControl(r), r == '\uffff', r == unicode.ReplacementChar, unicode.Is(unicode.Co, r), r == '\ufeff':
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}

// ranges lists page numbers, such as "pages 2, 5-9", up to a limit.
func ranges(pages []int) string {
	const most = 8
	var parts []string
	for i := 0; i < len(pages); {
		last := i
		for last+1 < len(pages) && pages[last+1] == pages[last]+1 {
			last++
		}
		if len(parts) == most {
			parts = append(parts, "…")
			break
		}
		if last == i {
			parts = append(parts, fmt.Sprint(pages[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", pages[i], pages[last]))
		}
		i = last + 1
	}
	if len(pages) == 1 {
		return "page " + parts[0]
	}
	return "pages " + strings.Join(parts, ", ")
}
