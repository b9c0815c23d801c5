package office

import (
	"encoding/xml"
	"strconv"
	"strings"
)

// titleLevel stands for the document's title among the levels of headings, which begin
// with 1.
const titleLevel = -1

// A style is what a style of paragraphs says of them.
type style struct {
	level  int // of a heading; titleLevel is a title, 0 no heading
	number place
	based  string
}

// styles finds the styles that are headings, by outline level, by name or because they are
// based on such a style, and those that are items of lists.
type styles struct {
	byID map[string]*style
	at   *style // the one that is being read
}

// maxStyles is how many styles, and how many lists and kinds of them, are remembered.
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
		if s.at.level == 0 { // its name is stronger
			s.at.set(value(e, "val"), 1)
		}
	case "basedOn":
		s.at.based = value(e, "val")
	case "numId", "ilvl":
		s.at.number.token(e)
	}
	return nil
}

func (s *style) set(level string, plus int) {
	if n, err := strconv.Atoi(level); err == nil && n+plus >= 1 && n+plus <= 9 {
		s.level = n + plus
	}
}

// maxBased is the longest chain of styles based on each other that is followed.
const maxBased = 10

// inherit gives styles what those have that they are based on. The level of a list may be
// tied to a style.
func (s *styles) inherit(n *numbering) {
	whole := make(map[string]*style, len(s.byID))
	for id, at := range s.byID {
		resolved, own, tied := *at, id, false
		for range maxBased {
			if resolved.level == 0 {
				resolved.level = at.level
			}
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

// of returns the style of an id; one that says nothing if there is none.
func (s *styles) of(id string) style {
	if found := s.byID[id]; found != nil {
		return *found
	}
	return style{}
}
