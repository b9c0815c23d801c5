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

// A Template is the text around the context that is added. It holds {{CONTEXT}} once,
// where the context goes, and may hold {{QUERY}} for the user's question and, once,
// {{RULES}} for the rules that otherwise stand above the sources. It is parsed once; the zero Template is {{CONTEXT}} alone.
type Template struct {
	text  string   // as it was written
	parts []string // texts and placeholders in turn
	names []string // of the tags in the texts, and of those that Protecting added
	tags  tags.Vocabulary
}

// braces matches double braces in a template, a placeholder in them, and the braces beside
// it.
var braces = regexp.MustCompile(`\{\{+(?:(CONTEXT|QUERY|RULES)\}\}+)?`)

// tagName matches the beginning of a tag in a template.
var tagName = regexp.MustCompile(`<\s*/?\s*([\pL_][\pL\pN_:.-]*)`)

// parseTemplate refuses double braces that are no placeholder, because they would reach
// the model as they are.
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

// unknownHole returns the part of text, which begins with two braces, that an error
// message shows.
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

// problem returns an error at an offset of the template's text.
func (t Template) problem(at int, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if !strings.Contains(strings.TrimRight(t.text, "\n"), "\n") {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+strings.Count(t.text[:at], "\n"), err)
}

// Protecting returns the template with more tags that inserted text must not look like.
func (t Template) Protecting(names []string) Template {
	t.names = slices.Concat(t.names, names)
	t.tags = tags.NewVocabulary(t.names...)
	return t
}

// Tags returns our tags, those of the template and those that Protecting added, which inserted
// text must not look like.
func (t *Template) Tags() tags.Vocabulary { return t.tags }

// TagNames returns the tags of the template's own texts and those that Protecting added.
func (t *Template) TagNames() []string { return t.names }

// Asks tells whether the template has a place for the question.
func (t Template) Asks() bool { return slices.Contains(t.parts, queryHole) }

// HasRules reports whether the template has a place for the rules.
func (t *Template) HasRules() bool { return slices.Contains(t.parts, rulesHole) }

// Around returns the texts before the context and behind it, with the question and the rules in
// their places, where placeholders stay as they are. It drops line breaks at the beginning: the ones before
// the block are made where it is placed.
func (t *Template) Around(query, rules string) (before, behind string) {
	at := slices.Index(t.parts, contextHole)
	if at < 0 { // the zero Template
		return "", ""
	}
	return strings.TrimLeft(filled(t.parts[:at], query, rules), "\r\n"), filled(t.parts[at+1:], query, rules)
}

// filled joins texts, with the question and the rules where placeholders stand for them.
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

// IsZero tells whether the template is not configured.
func (t Template) IsZero() bool { return t.text == "" }

// String returns the template as it was written.
func (t Template) String() string { return t.text }

// MarshalText is the inverse of UnmarshalText.
func (t Template) MarshalText() ([]byte, error) { return []byte(t.text), nil }

// UnmarshalText parses a template; empty text gives the zero Template.
func (t *Template) UnmarshalText(text []byte) (err error) {
	*t = Template{}
	if len(text) > 0 {
		*t, err = parseTemplate(string(text))
	}
	return err
}
