package staged

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/tokens"
)

// stageTag is the tag around a stage's output in the prompt of another.
const stageTag = "stage"

// The placeholders that are not stages.
const (
	PlaceQuestion = "QUESTION"
	PlaceContext  = "CONTEXT"
	PlaceHistory  = "HISTORY"
)

var inputs = [...]string{PlaceQuestion, PlaceContext, PlaceHistory}

// The values of template.places: the index of a stage, for its output, or one of these.
const (
	question = -1 - iota
	context
	history
)

// A template is a text with placeholders: texts[i] precedes places[i].
type template struct {
	texts   []string // one more than places
	escaped [][]byte // texts as in JSON strings
	places  []int
}

var (
	// braces matches double braces, a placeholder in them, and the braces beside it.
	braces = regexp.MustCompile(`\{\{+(?:([A-Za-z0-9_-]+)\}\}+)?`)
	// tagName matches the beginning of a tag.
	tagName = regexp.MustCompile(`<\s*/?\s*([\pL_][\pL\pN_:.-]*)`)
)

// parse parses a template. It refuses double braces that are no placeholder, because they would
// reach the model as they are.
func parse(text string, placeholder func(name string) (int, error)) (template, error) {
	var t template
	end := 0
	for _, at := range braces.FindAllStringSubmatchIndex(text, -1) {
		found, place := text[at[0]:at[1]], 0
		var err error
		switch {
		case at[2] < 0:
			err = fmt.Errorf("%q is not a placeholder", shown(text[at[0]:]))
		case found != "{{"+text[at[2]:at[3]]+"}}":
			err = fmt.Errorf("%q has a brace beside a placeholder; put a space between them", found)
		default:
			place, err = placeholder(text[at[2]:at[3]])
		}
		if err != nil {
			if strings.Contains(strings.TrimRight(text, "\n"), "\n") {
				err = fmt.Errorf("line %d: %w", 1+strings.Count(text[:at[0]], "\n"), err)
			}
			return template{}, err
		}
		t.texts, t.places = append(t.texts, text[end:at[0]]), append(t.places, place)
		end = at[1]
	}
	t.texts = append(t.texts, text[end:])
	for _, text := range t.texts {
		t.escaped = append(t.escaped, chat.AppendEscaped(nil, text))
	}
	return t, nil
}

// shown returns the beginning of text, which starts with two braces, for an error message.
func shown(text string) string {
	const most = 40
	line, _, _ := strings.Cut(text, "\n")
	if end := strings.Index(line, "}}"); end >= 0 {
		line = line[:end+len("}}")]
	}
	if runes := []rune(line); len(runes) > most {
		line = string(runes[:most]) + "…"
	}
	return line
}

func (t template) uses(place int) bool { return slices.Contains(t.places, place) }

func (t template) usesStage() bool {
	return slices.ContainsFunc(t.places, func(place int) bool { return place >= 0 })
}

// fill replaces all placeholders by values in one pass, so that placeholders in values are just
// text.
func (t template) fill(value func(place int) string) string {
	parts := make([]string, 0, 2*len(t.places)+1)
	for i, place := range t.places {
		parts = append(parts, t.texts[i], value(place))
	}
	return strings.Join(append(parts, t.texts[len(t.texts)-1]), "")
}

// Inputs are the values for placeholders in prompts.
type Inputs struct {
	Question string            // from Request.Question
	Context  []byte            // rewrite.Result.Block, from a rewrite that protects Chain.Tags; empty if there are no sources
	History  string            // from Request.History
	Outputs  []string          // outputs of the previous stages
	Counter  retrieval.Counter // of the model that will read the prompt
}

// What replaces empty values.
const (
	noSources = "(no sources)"
	noHistory = "(none)"
	noOutput  = "(no output)"
)

// cutMarker is appended to a text that was cut.
const cutMarker = " [… cut to fit]"

// Prompt returns the prompts of stage i. Nothing in question, history and outputs looks like a
// tag of the prompt; an output is enclosed in tags of its own and limited to its budget.
func (c *Chain) Prompt(i int, in Inputs) (system, user string) {
	return c.Stages[i].SystemPrompt, c.templates[i].fill(func(place int) string { return c.value(place, &in) })
}

// value returns the text for a placeholder.
func (c *Chain) value(place int, in *Inputs) string {
	switch place {
	case question:
		return c.safe(in.Question)
	case context:
		return orElse(chat.Unescape(in.Context), noSources)
	case history:
		return orElse(c.safe(in.History), noHistory)
	}
	return c.quote(&c.Stages[place], in.Outputs[place], in.Counter)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// safe neutralises and trims a text.
func (c *Chain) safe(text string) string {
	text, _ = c.tags.Neutralise(text, false)
	return strings.TrimSpace(text)
}

// quote returns the output of stage s as other stages read it.
func (c *Chain) quote(s *Stage, output string, counter retrieval.Counter) string {
	return "<" + stageTag + ` name="` + s.Name + "\">\n" + orElse(c.shorten(c.safe(output), s.budget(), counter), noOutput) + "\n</" + stageTag + ">"
}

func (s *Stage) budget() int {
	if s.Budget == 0 {
		return DefaultBudget
	}
	return s.Budget
}

// shorten cuts a text to budget tokens, at the end of a sentence if possible, and appends
// cutMarker. A cut can turn code into a tag, so the result is neutralised again.
func (c *Chain) shorten(text string, budget int, counter retrieval.Counter) string {
	if len(text) <= budget { // a token has at least one byte
		return text
	}
	if n, _ := tokens.CountUpTo(counter, text, budget); n <= budget {
		return text
	}
	mark, _ := counter.Count(cutMarker)
	for limit := budget - mark; limit > 0; {
		short := c.safe(strings.TrimRight(tokens.Cut(counter, text, limit), " \t\n") + cutMarker)
		n, _ := counter.Count(short)
		if n <= budget {
			return short
		}
		limit -= n - budget
	}
	return strings.TrimSpace(cutMarker)
}
