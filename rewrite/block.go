package rewrite

import (
	"slices"
	"strconv"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/tags"
)

// SourcesName is the name of the component that holds the sources. No other component
// may have it.
const SourcesName = "sources"

// Delimiters are the texts before and after all sources, and after each of them.
type Delimiters struct{ Open, Close, SourceClose string }

// Delimiters returns the delimiters of the style.
func (s *Style) Delimiters() Delimiters {
	d := Delimiters{tags.SourcesOpen, tags.SourcesClose, "\n" + tags.SourceClose}
	if s.SourcesFormat == SourcesPlain {
		d = Delimiters{SourceClose: "\n\n"}
	}
	if s.ComponentsFormat == ComponentsHeadings {
		d.Open = heading(SourcesName) + d.Open
		if d.Close != "" {
			d.Close += "\n"
		}
	}
	return d
}

// BareDelimiters returns the delimiters without the element around all sources, which is omitted
// together with the rules.
func (s *Style) BareDelimiters() Delimiters {
	d := s.Delimiters()
	d.Open, d.Close = strings.TrimSuffix(d.Open, tags.SourcesOpen), ""
	return d
}

// heading returns the line above a component.
func heading(name string) string { return "# " + strings.ToUpper(name) + "\n" }

// Head returns the line above a source, neutralised so that source metadata cannot imitate
// Sidenote's tags.
func (s *Style) Head(src *retrieval.Source, id int, ours tags.Vocabulary) string {
	if s.SourcesFormat == SourcesPlain {
		return s.plainHead(src, id, ours)
	}
	head := ours.AppendOpen(make([]byte, 0, 192), tags.Source{
		ID: id, Type: src.Type, KB: src.Knowledge, Doc: src.Doc, Name: src.Name, Section: src.Section,
	}, s.SourceAttributes)
	return string(append(head, '\n'))
}

// plainHead returns the line above a source without tags: its id, name, section and location, as
// far as the style shows them.
func (s *Style) plainHead(src *retrieval.Source, id int, ours tags.Vocabulary) string {
	line := append(strconv.AppendInt([]byte{'['}, int64(id), 10), ']')
	shown := func(attribute string) bool { return slices.Contains(s.SourceAttributes, attribute) }
	behind := " "
	for _, part := range [...]struct{ attribute, value, behind string }{{"name", src.Name, " > "}, {"section", src.Section, " "}} {
		if part.value != "" && shown(part.attribute) {
			line = ours.AppendLine(append(line, behind...), part.value)
			behind = part.behind
		}
	}
	var at []string
	for _, part := range [...]struct{ attribute, value string }{{"kb_id", src.Knowledge}, {"doc_id", src.Doc}} {
		if shown(part.attribute) {
			at = append(at, part.value)
		}
	}
	if len(at) > 0 {
		line = append(ours.AppendLine(append(line, " ("...), strings.Join(at, "/")), ')')
	}
	return string(append(line, '\n'))
}

// Component renders a named text as a component.
func (s *Style) Component(name, text string) string {
	if s.ComponentsFormat == ComponentsHeadings {
		return heading(name) + text + "\n\n"
	}
	return string(tags.AppendComponentOpen(nil, name)) + "\n" + text + "\n" + tags.ComponentClose
}
