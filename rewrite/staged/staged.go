// Package staged turns one chat request into the requests of a chain of model calls: an answer is
// drafted from the sources, reviewed, and put into its final words.
//
// It is pure: it builds the request of each stage and reports which requests a chain cannot
// handle. It makes no calls and knows nothing of clients, budgets or time.
package staged

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/tags"
)

// MaxStages is the maximum number of stages in a chain.
const MaxStages = 8

// DefaultBudget is the Budget of stages that set none, in tokens.
const DefaultBudget = 2000

// A Policy says how chats are answered in stages. It is a value, used if the mode of a chat is
// staged. All limits are per client request.
type Policy struct {
	Stages          []Stage // in order
	Chain           *Chain  `json:"-"` // Stages, compiled
	StageTimeout    time.Duration
	Timeout         time.Duration // of the whole chain
	Cache           time.Duration `json:",omitzero"` // how long outputs of stages before the last are cached; 0 disables caching
	LastUsage       bool          // report the usage of the last stage instead of the sum
	NoHeartbeat     bool          // send no heartbeats to streams before the last stage
	RefuseOnFailure bool          // on_failure.stage: refuse
	RefuseUnfit     bool          // refuse unfit requests instead of injecting sources
}

// A Stage is one model call of a chain.
type Stage struct {
	Name         string // [a-z0-9_-]{1,64}
	SystemPrompt string // follows the application's own; "" for none
	UserPrompt   string // a template: {{QUESTION}}, {{CONTEXT}}, {{HISTORY}}, {{earlier-stage}}
	Temperature  *float64
	MaxTokens    int    // limit of its output; 0 means the request's
	Model        string // "" means the request's
	Upstream     string // "" means the request's
	StopIf       string // if its output starts with this line, the chain ends and the previous stage's output is the answer
	EmptyIf      string // if its output starts with this line, nothing was found
	Draft        bool   // its output can be the answer; set by Compile if the next stage has a StopIf
	Budget       int    // tokens of its output that other stages read; 0 means DefaultBudget
}

// Stops reports whether an output of the stage ends the chain.
func (s *Stage) Stops(output string) bool { return saysAlone(output, s.StopIf) }

// FoundNothing reports whether an output of the stage says that nothing was found.
func (s *Stage) FoundNothing(output string) bool { return saysAlone(output, s.EmptyIf) }

// saysAlone reports whether the first line of an output is phrase, ignoring case and surrounding
// punctuation and Markdown marks.
func saysAlone(output, phrase string) bool {
	if phrase == "" {
		return false
	}
	const around = " \t\r*_`#\"'.!:"
	line, _, _ := strings.Cut(strings.TrimSpace(output), "\n")
	return strings.EqualFold(strings.Trim(line, around), strings.Trim(phrase, around))
}

// An Error reports what is wrong with a list of stages.
type Error struct {
	Stage  int    // its index; -1 for the list itself
	Field  string // as in the configuration, such as "user_prompt_template"; "" for the stage itself
	Reason string // human-readable
}

func (e *Error) Error() string {
	at := "stages"
	if e.Stage >= 0 {
		at += fmt.Sprintf("[%d]", e.Stage)
	}
	if e.Field != "" {
		at += "." + e.Field
	}
	return at + ": " + e.Reason
}

// A Chain is a list of stages with parsed templates. It is safe for concurrent use.
type Chain struct {
	Stages    []Stage // must not be changed
	templates []template
	systems   [][]byte // the system prompts as in JSON strings
	names     []string // tag names in prompts, which no inserted text may imitate
	tags      tags.Vocabulary
}

// The configuration names of a Stage's fields.
const (
	fieldName        = "name"
	fieldSystem      = "system_prompt"
	fieldUser        = "user_prompt_template"
	fieldTemperature = "temperature"
	fieldMaxTokens   = "max_tokens"
	fieldEffort      = "reasoning_effort"
	fieldBudget      = "budget"
	fieldStopIf      = "when.stop_if"
	fieldEmptyIf     = "when.empty_if"
)

var validName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// Compile checks stages and parses their templates. protected are more tag names that texts in
// prompts must not imitate. The error is an *Error.
func Compile(stages []Stage, protected ...string) (*Chain, error) {
	switch {
	case len(stages) == 0:
		return nil, &Error{-1, "", "has no stage"}
	case len(stages) > MaxStages:
		return nil, &Error{-1, "", fmt.Sprintf("has %d stages; there are at most %d", len(stages), MaxStages)}
	}
	c := &Chain{Stages: slices.Clone(stages), names: append([]string{stageTag}, protected...)}
	for i := range c.Stages {
		if err := c.add(i); err != nil {
			return nil, err
		}
	}
	for i := range c.Stages[1:] {
		c.Stages[i].Draft = c.Stages[i].Draft || c.Stages[i+1].StopIf != ""
	}
	c.tags = tags.NewVocabulary(c.names...)
	return c, nil
}

// add checks stage i, after those before it were added.
func (c *Chain) add(i int) error {
	s := &c.Stages[i]
	problem := func(field, format string, args ...any) error {
		return &Error{i, field, fmt.Sprintf(format, args...)}
	}
	last := i == len(c.Stages)-1
	switch {
	case !validName.MatchString(s.Name):
		return problem(fieldName, "%q is not a name: lower case letters, digits, _ and -, up to 64", s.Name)
	case slices.Contains(inputs[:], strings.ToUpper(s.Name)):
		return problem(fieldName, "%q is the placeholder {{%s}}; use another name", s.Name, strings.ToUpper(s.Name))
	case c.index(s.Name, i) >= 0:
		return problem(fieldName, "%q is taken by stage %d", s.Name, c.index(s.Name, i)+1)
	case strings.Contains(s.SystemPrompt, "{{"):
		return problem(fieldSystem, "holds {{; placeholders stand in %s only", fieldUser)
	case s.Temperature != nil && !(*s.Temperature >= 0 && *s.Temperature <= 2):
		return problem(fieldTemperature, "%g is out of range; use 0 to 2", *s.Temperature)
	case s.MaxTokens < 0:
		return problem(fieldMaxTokens, "%d is out of range", s.MaxTokens)
	case s.Budget < 0:
		return problem(fieldBudget, "%d is out of range", s.Budget)
	case s.StopIf != "" && i == 0:
		return problem(fieldStopIf, "has no stage before it, whose output would be the answer")
	case s.StopIf != "" && last:
		return problem(fieldStopIf, "is of the last stage, whose output goes to the client as it comes")
	case s.EmptyIf != "" && last:
		return problem(fieldEmptyIf, "is of the last stage, whose output goes to the client as it comes")
	}
	return c.addTemplate(i)
}

// addTemplate parses the template of a stage.
func (c *Chain) addTemplate(i int) error {
	s := &c.Stages[i]
	t, err := parse(s.UserPrompt, func(name string) (int, error) { return c.placeholder(name, i) })
	switch {
	case err != nil:
		return &Error{i, fieldUser, err.Error()}
	case i == 0 && !t.uses(question):
		return &Error{i, fieldUser, "the first stage must use {{QUESTION}}"}
	case !t.uses(question) && !t.usesStage():
		return &Error{i, fieldUser, "uses neither {{QUESTION}} nor the output of a stage before it"}
	}
	c.templates = append(c.templates, t)
	c.systems = append(c.systems, chat.AppendEscaped(nil, s.SystemPrompt))
	for _, text := range []string{s.SystemPrompt, s.UserPrompt} {
		for _, m := range tagName.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(c.names, m[1]) {
				c.names = append(c.names, m[1])
			}
		}
	}
	return nil
}

// placeholder returns the value in template.places for a placeholder in the template of stage i.
func (c *Chain) placeholder(name string, i int) (int, error) {
	if n := slices.Index(inputs[:], name); n >= 0 {
		return -1 - n, nil
	}
	if n := c.index(name, i); n >= 0 {
		return n, nil
	}
	switch n := c.index(name, len(c.Stages)); {
	case n == i:
		return 0, fmt.Errorf("{{%s}} is the stage itself", name)
	case n > i:
		return 0, fmt.Errorf("{{%s}} is a later stage", name)
	}
	return 0, fmt.Errorf("%q is not a placeholder; use {{QUESTION}}, {{CONTEXT}}, {{HISTORY}} or the name of an earlier stage", "{{"+name+"}}")
}

// index returns the index of the stage named name among the first n, -1 if there is none.
func (c *Chain) index(name string, n int) int {
	return slices.IndexFunc(c.Stages[:n], func(s Stage) bool { return s.Name == name })
}

// Tags returns the names of the tags in prompts. Sources for prompts must be rendered under a
// policy that protects them (rewrite.Policy.Protecting).
func (c *Chain) Tags() []string { return c.names }

// Uses reports whether any stage uses an input: PlaceQuestion, PlaceContext or PlaceHistory.
func (c *Chain) Uses(input string) bool {
	n := slices.Index(inputs[:], input)
	return n >= 0 && slices.ContainsFunc(c.templates, func(t template) bool { return t.uses(-1 - n) })
}

// MarshalJSON returns the stages as JSON.
func (c *Chain) MarshalJSON() ([]byte, error) { return json.Marshal(c.Stages) }
