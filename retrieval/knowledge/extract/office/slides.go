package office

import (
	"fmt"
	"slices"
	"strings"
)

// slides collects the slides of a presentation, each with its title as a heading.
type slides struct {
	flow
	count int // slides that are shown
	begun int // block with which the slide begins

	title   []string // texts of the slide's title
	inTitle bool
	inNotes bool
	noted   bool // the slide has notes
}

func (s *slides) begin() {
	s.count++
	s.begun, s.title, s.inTitle, s.inNotes, s.noted = len(s.blocks), nil, false, false, false
}

// end ends a slide that has content. Without a title it has its number.
func (s *slides) end() {
	title := strings.Join(strings.Fields(strings.Join(s.title, " ")), " ")
	if len(s.blocks) == s.begun && title == "" {
		return
	}
	if title == "" {
		title = fmt.Sprintf("Slide %d", s.count)
	}
	s.blocks = slices.Insert(s.blocks, s.begun, block{text: title, level: 1})
}

// paragraph writes the completed paragraph; mark is that of a list item, "" for others.
func (s *slides) paragraph(depth int, mark string) {
	text := s.take()
	switch {
	case text == "":
	case s.inTitle:
		s.title = append(s.title, text)
		s.written += len(text)
	default:
		if s.inNotes && !s.noted {
			s.noted = true
			s.plain("Notes:")
		}
		if mark != "" {
			s.item(depth, mark, text)
		} else {
			s.plain(text)
		}
	}
}

// markdown returns the text; name is the title in the document's properties. Slides are sections.
func (s *slides) markdown(name string) string {
	if name == "" {
		return s.flow.markdown("presentation") // a heading of its own is not the title of all
	}
	return s.flow.markdown(name)
}
