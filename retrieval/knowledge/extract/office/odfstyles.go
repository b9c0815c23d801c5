package office

import (
	"encoding/xml"
	"strconv"
	"strings"
)

// The parts of an OpenDocument file that are read.
const (
	contentPart  = "content.xml"
	odfStyles    = "styles.xml"
	metaPart     = "meta.xml"
	manifestPart = "META-INF/manifest.xml"
)

// An odfStyle is the properties of a style.
type odfStyle struct {
	parent string
	title  bool
	hidden bool // what has it is not shown
	script string
}

// odfStyleSet holds the styles and kinds of lists of a file.
type odfStyleSet struct {
	styles map[string]*odfStyle // by family and name
	lists  map[string]*kind
	style  *odfStyle // being read
	family string
	list   *kind // being read; nil outside of one
	level  int
}

func newODFStyles() *odfStyleSet {
	return &odfStyleSet{styles: map[string]*odfStyle{}, lists: map[string]*kind{}, style: &odfStyle{}}
}

func (s *odfStyleSet) token(t xml.Token) error {
	if e, ok := t.(xml.StartElement); ok {
		s.start(e)
	}
	return nil
}

func (s *odfStyleSet) start(e xml.StartElement) {
	switch name := e.Name.Local; name {
	case "style":
		s.style = &odfStyle{parent: value(e, "parent-style-name"), title: value(e, "name") == "Title"}
		s.family = value(e, "family")
		if len(s.styles) < maxStyles {
			s.styles[s.family+" "+value(e, "name")] = s.style
		}
	case "text-properties":
		s.style.hidden = s.style.hidden || value(e, "display") == "none"
		s.style.script = scriptOf(value(e, "text-position"))
	case "table-properties":
		s.style.hidden = s.style.hidden || value(e, "display") == "false"
	case "drawing-page-properties":
		s.style.hidden = s.style.hidden || value(e, "visibility") == "hidden"
	case "list-style":
		s.list = &kind{}
		if len(s.lists) < maxStyles {
			s.lists[value(e, "name")] = s.list
		}
	case "list-level-style-number", "list-level-style-bullet", "list-level-style-image":
		n, err := strconv.Atoi(value(e, "level"))
		if err != nil || n < 1 || n > maxLevels || s.list == nil {
			return
		}
		s.list.levels[n-1] = odfLevel(e)
	}
}

// scriptOf returns the alignment of text from a position such as "super 58%" or "-33% 58%".
func scriptOf(position string) string {
	first, _, _ := strings.Cut(position, " ")
	switch {
	case first == "super":
		return superscript
	case first == "sub":
		return subscript
	}
	switch n, _ := strconv.ParseFloat(strings.TrimSuffix(first, "%"), 64); {
	case n > 0:
		return superscript
	case n < 0:
		return subscript
	}
	return ""
}

// odfLevel returns how a level of a list marks its items.
func odfLevel(e xml.StartElement) level {
	l := level{format: "bullet", start: 1}
	if e.Name.Local != "list-level-style-number" {
		return l
	}
	switch value(e, "num-format") {
	case "":
		return level{format: "none"}
	case "a":
		l.format = "lowerLetter"
	case "A":
		l.format = "upperLetter"
	case "i":
		l.format = "lowerRoman"
	case "I":
		l.format = "upperRoman"
	default:
		l.format = "decimal"
	}
	if n, err := strconv.Atoi(value(e, "start-value")); err == nil {
		l.start = n
	}
	before, after := value(e, "num-prefix"), value(e, "num-suffix")
	l.text = before[:min(len(before), maxMark)] + "%" + after[:min(len(after), maxMark)]
	return l
}

// of returns the style of an element in a family; own properties take precedence over those of the
// styles that it is based on.
func (s *odfStyleSet) of(family, name string) (found odfStyle) {
	for range maxBased {
		at := s.styles[family+" "+name]
		if at == nil {
			break
		}
		found.title = found.title || at.title
		found.hidden = found.hidden || at.hidden
		if found.script == "" {
			found.script = at.script
		}
		name = at.parent
	}
	return found
}
