package rewrite

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/tags"
)

// The placeholders of a template.
const (
	contextHole = "{{CONTEXT}}"
	queryHole   = "{{QUERY}}"
	rulesHole   = "{{RULES}}"
)

// A Template is the text around the added context. It contains {{CONTEXT}} exactly once and may
// contain {{QUERY}} for the user's question and, once, {{RULES}} for the rules that are otherwise
// placed above the sources. The zero Template is {{CONTEXT}} alone.
type Template struct {
	text  string   // as configured
	parts []string // texts and placeholders alternately
	names []string // of the tags in the texts, and those added by Protecting
	tags  tags.Vocabulary
}

// braces matches double braces in a template, a placeholder in them, and the braces beside
// it.
var braces = regexp.MustCompile(`\{\{+(?:(CONTEXT|QUERY|RULES)\}\}+)?`)

// tagName matches the beginning of a tag in a template.
var tagName = regexp.MustCompile(`<\s*/?\s*([\pL_][\pL\pN_:.-]*)`)

// parseTemplate parses a template. It refuses double braces that are no placeholder, because they
// would reach the model as they are.
func parseTemplate(text string) (Template, error) {
	t := Template{text: text}
	end := 0
	for _, at := range braces.FindAllStringSubmatchIndex(text, -1) {
		found := text[at[0]:at[1]]
		switch {
		case at[2] < 0:
			return Template{}, t.problem(at[0], "%q is not a placeholder; use {{CONTEXT}}, {{RULES}} or {{QUERY}}", unknownHole(text[at[0]:]))
		case found != contextHole && found != queryHole && found != rulesHole:
			return Template{}, t.problem(at[0], "%q has a brace beside a placeholder; put a space between them", found)
		}
		t.parts = append(t.parts, text[end:at[0]], found)
		end = at[1]
	}
	t.parts = append(t.parts, text[end:])
	if n := strings.Count(text, contextHole); n != 1 {
		return Template{}, fmt.Errorf("has {{CONTEXT}} %d times; the context goes in once", n)
	}
	if n := strings.Count(text, rulesHole); n > 1 {
		return Template{}, fmt.Errorf("has {{RULES}} %d times; the rules go in once", n)
	}
	for _, m := range tagName.FindAllStringSubmatch(text, -1) {
		t.names = append(t.names, m[1])
	}
	t.tags = tags.NewVocabulary(t.names...)
	return t, nil
}

// unknownHole returns the beginning of text, which starts with two braces, for an error message.
func unknownHole(text string) string {
	const most = 40
	line, _, _ := strings.Cut(text, "\n")
	if end := strings.Index(line, "}}"); end >= 0 {
		line = line[:end+len("}}")]
	}
	if shown := []rune(line); len(shown) > most {
		line = string(shown[:most]) + "…"
	}
	return line
}

// problem returns an error with the line of an offset in the template, if it has several lines.
func (t Template) problem(at int, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if !strings.Contains(strings.TrimRight(t.text, "\n"), "\n") {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+strings.Count(t.text[:at], "\n"), err)
}

// Protecting returns the template with more tag names that inserted text must not imitate.
func (t Template) Protecting(names []string) Template {
	t.names = slices.Concat(t.names, names)
	t.tags = tags.NewVocabulary(t.names...)
	return t
}

// Tags returns all tags that inserted text must not imitate: Sidenote's, the template's and those
// added by Protecting.
func (t *Template) Tags() tags.Vocabulary { return t.tags }

// TagNames returns the names of the template's tags and of those added by Protecting.
func (t *Template) TagNames() []string { return t.names }

// HasQuery reports whether the template contains {{QUERY}}.
func (t Template) HasQuery() bool { return slices.Contains(t.parts, queryHole) }

// HasRules reports whether the template contains {{RULES}}.
func (t *Template) HasRules() bool { return slices.Contains(t.parts, rulesHole) }

// Around returns the texts before and after the context, with query and rules in place of their
// placeholders. It trims leading line breaks: those before the block are added where it is
// placed.
func (t *Template) Around(query, rules string) (before, behind string) {
	at := slices.Index(t.parts, contextHole)
	if at < 0 { // the zero Template
		return "", ""
	}
	return strings.TrimLeft(filled(t.parts[:at], query, rules), "\r\n"), filled(t.parts[at+1:], query, rules)
}

// filled joins parts and replaces the placeholders by query and rules.
func filled(parts []string, query, rules string) string {
	var all strings.Builder
	for i, part := range parts {
		switch {
		case i%2 == 0:
		case part == rulesHole:
			part = rules
		default:
			part = query
		}
		all.WriteString(part)
	}
	return all.String()
}

// IsZero reports whether no template is configured.
func (t Template) IsZero() bool { return t.text == "" }

// String returns the template as configured.
func (t Template) String() string { return t.text }

// MarshalText implements encoding.TextMarshaler.
func (t Template) MarshalText() ([]byte, error) { return []byte(t.text), nil }

// UnmarshalText parses a template; empty text gives the zero Template.
func (t *Template) UnmarshalText(text []byte) (err error) {
	*t = Template{}
	if len(text) > 0 {
		*t, err = parseTemplate(string(text))
	}
	return err
}

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
		ID: id, Type: src.Type, KB: src.Knowledge, Doc: src.Doc, Name: src.Name, Section: src.Section, Date: src.Date,
	}, s.SourceAttributes)
	return string(append(head, '\n'))
}

// plainHead returns the line above a source without tags: its id, name, section and location, as
// far as the style shows them.
func (s *Style) plainHead(src *retrieval.Source, id int, ours tags.Vocabulary) string {
	line := append(strconv.AppendInt([]byte{'['}, int64(id), 10), ']')
	shown := func(attribute string) bool { return slices.Contains(s.SourceAttributes, attribute) }
	behind := " "
	for _, part := range [...]struct{ attribute, value, behind string }{{"name", src.Name, " > "}, {"section", src.Section, ", "}, {"date", src.Date, " "}} {
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

// A part is a text that is added whole or not at all. It may be shared and is never changed.
type part struct {
	text   string
	json   []byte // the text as in a JSON string; nil if not cached
	tokens int    // of the text alone
	exact  bool   // tokens is exact, not just an upper bound
}

// part counts text and returns it as a part.
func (m *meter) part(text string) part {
	n, exact := m.counter.Count(text)
	m.allExact = m.allExact && exact
	return part{text: text, tokens: n, exact: exact}
}

// known returns the part's tokens; 0 if they are only an upper bound.
func (p *part) known() int {
	if !p.exact {
		return 0
	}
	return p.tokens
}

// inJSON returns the text as in a JSON string.
func (p *part) inJSON() []byte {
	if p.json != nil {
		return p.json
	}
	return chat.AppendEscaped(make([]byte, 0, len(p.text)+len(p.text)/16), p.text)
}

// fixedTexts are the texts around sources and components.
type fixedTexts struct {
	before, behind part    // the template's texts before and after the context, without rules
	withRules      [2]part // the same with the rules, if the template has {{RULES}}
	ruleTokens     int     // tokens of the rules in withRules; 0 if there are none
	rules          part    // the rules, if placed in the block outside the sources element
	opening        part    // text above the first source, including the rules or the notice if placed there
	closing        part    // the line after the last source of a long sources element
	close          part
	sourceClose    part // text after each source

	around    int // tokens of the template's texts, rules included, and of rules
	inElement int // tokens of the rules or the notice in opening
	exact     bool

	rulesInBlock  bool // rules is in the block
	searchResults bool // sources are content blocks of their own
}

// newFixedTexts returns the fixed texts for a request, with or without the notice that there are no
// sources.
func newFixedTexts(j *job, notice bool) *fixedTexts {
	formatIsText := j.req.TextFormat
	p, m := j.policy, meter{counter: j.model.Counter, allExact: true}
	before, behind := p.Template.Around(j.safeQuery(), "")
	d, closing := p.Delimiters(), p.Closing(formatIsText)
	inTemplate, inBlock, inElement := "", "", p.Rules(formatIsText, j.rulesInBlock)
	if j.cites {
		inElement = p.resultRules()
	}
	switch {
	case p.NoRules || p.Template.HasRules():
		if !p.NoRules {
			inTemplate = strings.TrimSuffix(inElement, "\n")
		}
		inElement, closing = "", ""
		d = p.BareDelimiters()
	case j.rulesInBlock:
		inBlock, inElement = inElement, ""
	}
	switch {
	case j.searchResults:
		d, closing = Delimiters{SourceClose: "\n\n"}, ""
	case j.dated && !p.NoRules:
		if inTemplate != "" {
			inTemplate = strings.Replace(inTemplate, ruleYield, ruleNewest+ruleYield, 1)
		} else if before, yield, ok := strings.Cut(inElement, ruleYield); ok {
			inElement = before + ruleNewest + ruleYield + yield
		} else {
			inElement = strings.TrimSpace(ruleNewest) + "\n"
		}
	}
	if notice {
		inElement = noticeEmpty
	}
	f := &fixedTexts{
		before: m.part(before), behind: m.part(behind), rules: m.part(inBlock),
		opening: m.part(d.Open + inElement), closing: m.part(closing), close: m.part(d.Close), sourceClose: m.part(d.SourceClose),
		inElement: m.count(inElement), rulesInBlock: j.rulesInBlock, searchResults: j.searchResults,
	}
	if inTemplate != "" {
		before, behind = p.Template.Around(j.safeQuery(), inTemplate)
		f.withRules, f.ruleTokens = [2]part{m.part(before), m.part(behind)}, m.count(inTemplate)
	}
	f.around = m.count(strings.TrimLeft(before+behind, "\r\n")) + f.rules.tokens
	f.exact = m.allExact
	return f
}
