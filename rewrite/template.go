package rewrite

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

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
			return Template{}, t.problem(at[0], "%q is no placeholder; there are {{CONTEXT}}, {{RULES}} and {{QUERY}}", unknownHole(text[at[0]:]))
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
