package office

import (
	"encoding/xml"
	"strconv"
	"strings"
)

const (
	maxLevels = 9  // of a list
	maxMark   = 64 // bytes of the text that marks an item
)

// A place is a level of a list; list is "" or noList if there is none.
type place struct {
	list  string // number of the list
	level int    // from 0
}

// noList excludes paragraphs from the list of their style.
const noList = "0"

// token reads numId or ilvl.
func (p *place) token(e xml.StartElement) {
	if e.Name.Local == "numId" {
		p.list = value(e, "val")
	} else if n, err := strconv.Atoi(value(e, "val")); err == nil && n >= 0 {
		p.level = min(n, maxLevels-1)
	}
}

func (p place) listed() bool { return p.list != "" && p.list != noList }

// numbering determines the bullets and numbers of list items.
type numbering struct {
	kinds map[string]*kind // by number
	lists map[string]*list // by number

	kind  *kind // being read; nil while reading a list
	list  *list // being read; nil while reading a kind
	level int
}

// A level defines how items are marked.
type level struct {
	format string // such as bullet or decimal
	text   string // such as "%1.%2."
	start  int
}

// A kind of list defines the marks and holds the count of its lists: a list continues the count of
// the previous one of its kind, unless it defines a start.
type kind struct {
	levels [maxLevels]level
	counts [maxLevels]int
	begun  [maxLevels]bool
	styles map[string]int // styles that are levels of it
}

// A list is a list of some kind.
type list struct {
	kind   string
	starts map[int]int // by level, if it restarts there
}

func newNumbering() *numbering {
	return &numbering{kinds: map[string]*kind{}, lists: map[string]*list{}}
}

func (n *numbering) token(t xml.Token) error {
	if e, ok := t.(xml.StartElement); ok {
		n.start(e)
	}
	return nil
}

func (n *numbering) start(e xml.StartElement) {
	switch e.Name.Local {
	case "abstractNum":
		n.kind, n.list = &kind{styles: map[string]int{}}, nil
		if len(n.kinds) < maxStyles {
			n.kinds[value(e, "abstractNumId")] = n.kind
		}
	case "num":
		n.kind, n.list = nil, &list{starts: map[int]int{}}
		if len(n.lists) < maxStyles {
			n.lists[value(e, "numId")] = n.list
		}
	case "lvl", "lvlOverride":
		if at, err := strconv.Atoi(value(e, "ilvl")); err == nil && at >= 0 && at < maxLevels {
			n.level = at
		}
	}
	if n.kind != nil {
		n.kind.token(e, n.level)
	} else if n.list != nil {
		n.list.token(e, n.level)
	}
}

// token reads a property of a level.
func (k *kind) token(e xml.StartElement, at int) {
	switch l := &k.levels[at]; e.Name.Local {
	case "start":
		if first, err := strconv.Atoi(value(e, "val")); err == nil {
			l.start = first
		}
	case "numFmt":
		l.format = value(e, "val")
	case "lvlText":
		l.text = value(e, "val")
		l.text = l.text[:min(len(l.text), maxMark)]
	case "pStyle":
		if len(k.styles) < maxLevels {
			k.styles[value(e, "val")] = at
		}
	}
}

func (l *list) token(e xml.StartElement, at int) {
	switch e.Name.Local {
	case "abstractNumId":
		l.kind = value(e, "val")
	case "startOverride":
		if first, err := strconv.Atoi(value(e, "val")); err == nil {
			l.starts[at] = first
		}
	}
}

// levelOf returns the level of a style in a list.
func (n *numbering) levelOf(id, style string) (level int, ok bool) {
	if l := n.lists[id]; l != nil && n.kinds[l.kind] != nil {
		level, ok = n.kinds[l.kind].styles[style]
	}
	return level, ok
}

// bullet marks items without a number, and those of undefined lists.
const bullet = "-"

// mark counts an item and returns its mark, such as "1." or bullet; "" if it has none.
func (n *numbering) mark(p place) string {
	l := n.lists[p.list]
	if l == nil || n.kinds[l.kind] == nil {
		return bullet
	}
	k := n.kinds[l.kind]
	k.count(p.level, l)
	switch at := k.levels[p.level]; at.format {
	case "bullet", "":
		return bullet
	case "none":
		return ""
	default:
		text := at.text
		for i, above := range k.levels {
			text = strings.ReplaceAll(text, "%"+strconv.Itoa(i+1), inFormat(above.format, k.value(i)))
		}
		return strings.TrimSpace(text)
	}
}

// count counts an item at a level of l; deeper levels restart.
func (k *kind) count(at int, l *list) {
	first, anew := l.starts[at]
	switch {
	case anew:
		k.counts[at] = first
		delete(l.starts, at)
	case k.begun[at]:
		k.counts[at]++
	default:
		k.counts[at] = k.levels[at].start
	}
	k.begun[at] = true
	for i := at + 1; i < maxLevels; i++ {
		k.begun[i] = false
	}
}

// value returns the count of a level, or its first number if there was no item yet.
func (k *kind) value(at int) int {
	if k.begun[at] {
		return k.counts[at]
	}
	return k.levels[at].start
}

// inFormat returns a number in the format of a list; rare formats use digits.
func inFormat(format string, n int) string {
	switch format {
	case "lowerLetter":
		return letters(n)
	case "upperLetter":
		return strings.ToUpper(letters(n))
	case "lowerRoman":
		return strings.ToLower(roman(n))
	case "upperRoman":
		return roman(n)
	case "decimalZero":
		if n >= 0 && n < 10 {
			return "0" + strconv.Itoa(n)
		}
	}
	return strconv.Itoa(n)
}

// letters counts a … z, aa … zz, as Word does.
func letters(n int) string {
	const most = 26 * 10
	if n < 1 || n > most {
		return strconv.Itoa(n)
	}
	return strings.Repeat(string(rune('a'+(n-1)%26)), (n-1)/26+1)
}

func roman(n int) string {
	const most = 3999
	if n < 1 || n > most {
		return strconv.Itoa(n)
	}
	var b strings.Builder
	for _, r := range []struct {
		value int
		text  string
	}{
		{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"},
		{50, "L"}, {40, "XL"}, {10, "X"}, {9, "IX"}, {5, "V"}, {4, "IV"}, {1, "I"},
	} {
		for ; n >= r.value; n -= r.value {
			b.WriteString(r.text)
		}
	}
	return b.String()
}
