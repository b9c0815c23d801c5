// Package tagstest parses, for tests, the output of package tags.
package tagstest

import (
	"fmt"
	"strconv"
	"strings"

	"sidenote/rewrite/tags"
)

// own is the vocabulary of package tags alone.
var own tags.Vocabulary

// A Parsed is a source parsed from a rendered block.
type Parsed struct {
	tags.Source
	Body string // the text between the tags' line feeds, still neutralised
}

// ParseSources parses a rendered <sources> element strictly. text must be the element and nothing
// else, each tag must be written as by tags.AppendOpen, on a line of its own, and nothing else
// may look like a tag. Lines outside the sources (the rules) are skipped. It returns the sources
// in order; an error contains the byte offset of the mistake.
func ParseSources(text string) ([]Parsed, error) {
	p := parser{text: text}
	if !p.accept(tags.SourcesOpen) {
		return nil, p.errorf("want %q", tags.SourcesOpen)
	}
	var sources []Parsed
	for !p.accept(tags.SourcesClose) {
		if !strings.HasPrefix(p.rest(), "<source ") {
			if err := p.rule(); err != nil {
				return nil, err
			}
			continue
		}
		s, err := p.source()
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	if p.rest() != "" {
		return nil, p.errorf("text behind %q", tags.SourcesClose)
	}
	return sources, nil
}

// A parser parses text from offset at on.
type parser struct {
	text string
	at   int
}

func (p *parser) rest() string { return p.text[p.at:] }

func (p *parser) accept(s string) bool {
	ok := strings.HasPrefix(p.rest(), s)
	if ok {
		p.at += len(s)
	}
	return ok
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("parse sources: offset %d: %w", p.at, fmt.Errorf(format, args...))
}

// until returns the text before end and advances past end.
func (p *parser) until(end string) (string, error) {
	s, _, ok := strings.Cut(p.rest(), end)
	if !ok {
		return "", p.errorf("no %q", end)
	}
	p.at += len(s) + len(end)
	return s, nil
}

// rule reads a line of text between tags.
func (p *parser) rule() error {
	start := p.at
	line, err := p.until("\n")
	if err == nil && own.Count(line) > 0 {
		p.at = start
		err = p.errorf("line %.40q looks like a tag", line)
	}
	return err
}

// source reads one source element, line feeds included.
func (p *parser) source() (Parsed, error) {
	var s Parsed
	head, err := p.until(">\n")
	if err != nil {
		return s, err
	}
	if s.Source, err = parseOpen(head); err != nil {
		return s, p.errorf("tag before: %w", err)
	}
	start := p.at
	if p.accept(tags.SourceClose) {
		return s, nil
	}
	if s.Body, err = p.until("\n" + tags.SourceClose); err != nil {
		return s, err
	}
	if own.Count(s.Body) > 0 {
		p.at = start
		return s, p.errorf("body looks like a tag")
	}
	return s, nil
}

// parseOpen reads `<source id="1" …`.
func parseOpen(head string) (s tags.Source, err error) {
	rest := strings.TrimPrefix(head, "<source")
	id, rest, err := parseAttr(rest, "id")
	if err != nil {
		return s, err
	}
	if s.ID, err = strconv.Atoi(id); err != nil || s.ID < 1 || strconv.Itoa(s.ID) != id {
		return s, fmt.Errorf("id %q is no number from 1", id)
	}
	for _, a := range []struct {
		name  string
		value *string
	}{{"type", &s.Type}, {"kb_id", &s.KB}, {"doc_id", &s.Doc}, {"name", &s.Name}, {"section", &s.Section}, {"date", &s.Date}} {
		if strings.HasPrefix(rest, " "+a.name+"=") {
			if *a.value, rest, err = parseAttr(rest, a.name); err != nil {
				return s, err
			}
		}
	}
	if rest != "" {
		return s, fmt.Errorf("unexpected %.40q", rest)
	}
	return s, nil
}

// parseAttr reads ` name="value"` and returns the value and the text after it.
func parseAttr(text, name string) (value, rest string, err error) {
	text, ok := strings.CutPrefix(text, " "+name+`="`)
	if !ok {
		return "", "", fmt.Errorf("no attribute %s", name)
	}
	value, rest, ok = strings.Cut(text, `"`)
	if !ok || strings.ContainsAny(value, "<>\n\t") {
		return "", "", fmt.Errorf("attribute %s is not closed", name)
	}
	plain := entities().Replace(value)
	if string(own.AppendAttr(nil, name, plain)) != " "+name+`="`+value+`"` {
		return "", "", fmt.Errorf("attribute %s=%q is not as we write it", name, value)
	}
	return plain, rest, nil
}

// entities undoes the escapes of AppendAttr.
func entities() *strings.Replacer {
	return strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">", "&quot;", `"`)
}
