package office

import (
	"encoding/xml"
	"strconv"
	"strings"
)

// titleLevel represents the document's title among the levels of headings, which begin with 1.
const titleLevel = -1

// A style is the properties of a paragraph style.
type style struct {
	level  int // of a heading; titleLevel for a title, 0 for no heading
	number place
	hidden bool // its text is not shown
	based  string
}

// styles finds the styles of headings, by outline level, by name or because they are based on such
// a style, and those of list items.
type styles struct {
	byID map[string]*style
	at   *style // the one being read
}

// maxStyles is the limit on styles, and on lists and their kinds.
const maxStyles = 10_000

func newStyles() *styles { return &styles{byID: map[string]*style{}, at: &style{}} }

func (s *styles) token(t xml.Token) error {
	e, ok := t.(xml.StartElement)
	if !ok {
		return nil
	}
	switch e.Name.Local {
	case "style":
		s.at = &style{}
		if len(s.byID) < maxStyles {
			s.byID[value(e, "styleId")] = s.at
		}
	case "name":
		name := strings.ToLower(value(e, "val"))
		if rest, ok := strings.CutPrefix(name, "heading "); ok {
			s.at.set(rest, 0)
		} else if name == "title" {
			s.at.level = titleLevel
		}
	case "outlineLvl":
		if s.at.level == 0 { // its name takes precedence
			s.at.set(value(e, "val"), 1)
		}
	case "basedOn":
		s.at.based = value(e, "val")
	case "numId", "ilvl":
		s.at.number.token(e)
	case "vanish":
		s.at.hidden = on(e)
	}
	return nil
}

func (s *style) set(level string, plus int) {
	if n, err := strconv.Atoi(level); err == nil && n+plus >= 1 && n+plus <= 9 {
		s.level = n + plus
	}
}

// maxBased is the longest chain of base styles that is followed.
const maxBased = 10

// inherit adds properties of their base styles to styles. The level of a list may be tied to a
// style.
func (s *styles) inherit(n *numbering) {
	whole := make(map[string]*style, len(s.byID))
	for id, at := range s.byID {
		resolved, own, tied := *at, id, false
		for range maxBased {
			if resolved.level == 0 {
				resolved.level = at.level
			}
			resolved.hidden = resolved.hidden || at.hidden
			if resolved.number.list == "" {
				resolved.number = at.number
			}
			if level, ok := n.levelOf(resolved.number.list, id); ok && !tied {
				resolved.number.level, tied = level, true
			}
			id = at.based
			if at = s.byID[id]; at == nil {
				break
			}
		}
		whole[own] = &resolved
	}
	s.byID = whole
}

// of returns the style with an id; an empty one if there is none.
func (s *styles) of(id string) style {
	if found := s.byID[id]; found != nil {
		return *found
	}
	return style{}
}
