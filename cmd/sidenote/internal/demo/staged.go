package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/rewrite"
)

// A StagedStory is the content of a screen: one request that was answered in stages.
type StagedStory struct {
	Question  string                `json:"question"`
	Documents int                   `json:"documents"`
	Chunks    int                   `json:"chunks"`
	Preset    string                `json:"stages_preset"`
	Original  []byte                `json:"-"` // the request as the app sent it
	Of        int                   `json:"of"`
	Stages    []StageStory          `json:"stages"`  // that were called
	Sources   []rewrite.SourceEntry `json:"sources"` // that the model was shown
	Answer    string                `json:"answer"`  // that the app got
	ID        string                `json:"id"`      // of that answer
	Finish    string                `json:"finish_reason"`
	Status    string                `json:"status"`  // its Sidenote-Status
	Cited     []int                 `json:"cited"`   // ids that it cites
	Address   string                `json:"address"` // where apps would send requests, host:port
	Index     time.Duration         `json:"index_ns"`
	Took      time.Duration         `json:"took_ns"`
}

// A StageStory is one call of the model.
type StageStory struct {
	Name     string        `json:"name"`
	At       int           `json:"stage"`   // its position in the chain, from 1
	Outcome  string        `json:"outcome"` // "ok", or what ended the chain
	Sent     []byte        `json:"-"`       // the request body that Sidenote reported
	Exchange Exchange      `json:"-"`       // as the stub saw it; zero if it did not
	Took     time.Duration `json:"took_ns"`
}

// Check returns an error if a stage did not reach the model, if the answer is not that of the last
// stage, or if it cites what no stage was shown.
func (s *StagedStory) Check() error {
	if len(s.Stages) == 0 {
		return errors.New("the request was not answered in stages")
	}
	for _, stage := range s.Stages {
		if len(stage.Sent) == 0 || !bytes.Equal(stage.Sent, stage.Exchange.Request) {
			return fmt.Errorf("stage %s did not arrive at the model", stage.Name)
		}
	}
	last := s.Stages[len(s.Stages)-1]
	said := last.Exchange.Answer
	switch {
	case last.Outcome == outcomeStopped && len(s.Stages) > 1:
		said = s.Stages[len(s.Stages)-2].Exchange.Answer
	case last.Outcome != outcomeOK:
		return fmt.Errorf("stage %s ended the chain: %s", last.Name, last.Outcome)
	case last.At != s.Of:
		return fmt.Errorf("the chain ended with stage %d of %d", last.At, s.Of)
	}
	if s.Answer != said {
		return errors.New("the answer is not what the last stage said")
	}
	if len(s.Cited) == 0 {
		return errors.New("the answer cites no sources")
	}
	for _, id := range s.Cited {
		if !slices.ContainsFunc(s.Sources, func(e rewrite.SourceEntry) bool { return e.ID == id }) || !s.shown(id) {
			return fmt.Errorf("the answer cites source %d, which no stage was shown", id)
		}
	}
	return nil
}

// shown reports whether a request to the model contains a source.
func (s *StagedStory) shown(id int) bool {
	element := fmt.Sprintf(`<source id="%d" `, id)
	return slices.ContainsFunc(s.Stages, func(stage StageStory) bool {
		var req chatRequest
		if json.Unmarshal(stage.Exchange.Request, &req) != nil {
			return false
		}
		all, _ := req.texts()
		return strings.Contains(all, element)
	})
}

// The outcomes of stages that lead to an answer, as in reports.
const (
	outcomeOK      = "ok"
	outcomeStopped = "stopped"
)

// JSON returns the story as JSON, with all requests unchanged.
func (s *StagedStory) JSON() ([]byte, error) {
	type call struct {
		StageStory
		Part    Part            `json:"part"` // that the stub played
		Request json.RawMessage `json:"request"`
		Said    string          `json:"said"`
	}
	calls := make([]call, len(s.Stages))
	for i, stage := range s.Stages {
		calls[i] = call{stage, stage.Exchange.Part, stage.Exchange.Request, stage.Exchange.Answer}
	}
	return json.MarshalIndent(struct {
		*StagedStory
		Original json.RawMessage `json:"request"`
		Stages   []call          `json:"stages"`
		Arrived  bool            `json:"stages_arrived"`
	}{s, s.Original, calls, s.Check() == nil}, "", "  ")
}

// RenderStaged draws the screen: at most 40 lines of at most Width columns, unless look.Full.
func RenderStaged(s *StagedStory, look Look) string {
	p := painter{look: look}
	p.beginning(s.Documents, s.Chunks, s.Index)
	p.line("2  upstream   built-in stub, answers only from what it is shown, and drafts carelessly")
	p.line("3  policy     mode: staged, stages: %s   (sidenote stages show %s)", s.Preset, s.Preset)
	p.line("4  question   %q", s.Question)
	p.line("")
	for i := range s.Stages {
		p.stage(s, &s.Stages[i])
	}
	if len(s.Stages) == 0 {
		p.line("   the request was not answered in stages")
	}
	p.line("")
	p.line("   the app sent one request, %s B, and got one answer, %s (%s), after %s",
		terminal.Thousands(len(s.Original)), s.ID, s.Finish, terminal.Short(s.Took, 0.1))
	p.line("   Sidenote-Status: %s", s.Status)
	p.text("answer", s.Answer, saidLines)
	p.cited(s.Sources, s.Cited)
	p.line("")
	p.line("Ask it something yourself: sidenote demo --staged \"May I work from abroad?\"")
	p.line("Your own folder and model: sidenote ask \"…\" --policy %s --knowledge ./docs \\", s.Preset)
	p.line("                             --upstream https://api.openai.com --model gpt-5-mini")
	return p.b.String()
}

// saidLines limits the lines of a stage's output, and of the answer.
const saidLines = 4

// stage shows the prompt and the output of a stage.
func (p *painter) stage(s *StagedStory, stage *StageStory) {
	asked := promptOf(stage.Exchange.Request)
	p.line("%s%s", pad(fmt.Sprintf("   stage %d/%d  %s   %s", stage.At, s.Of, stage.Name, asked.settings), 80), terminal.Short(stage.Took, 0.1))
	p.line("     asked    %s: %q", asked.inputs, asked.system)
	said := stage.Exchange.Answer
	switch {
	case said == "":
		said = "nothing: " + stage.Outcome
	case said == s.Answer && stage.At == s.Of:
		said = "the answer below"
	}
	p.text("  said", said, saidLines)
	if stage.Outcome == outcomeStopped {
		p.line("   the chain ends: what %s said is the answer", s.Stages[max(0, len(s.Stages)-2)].Name)
	}
}

// text shows a labelled text; the middle is left out if it exceeds most lines.
func (p *painter) text(label, text string, most int) {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, wrap(line, Width-14)...)
	}
	if !p.look.Full && len(lines) > most {
		lines = append(append(lines[:most-2:most-2], "…"), lines[len(lines)-1])
	}
	for i, line := range lines {
		if i > 0 {
			label = ""
		}
		p.line("   %s%s", pad(label, 11), line)
	}
}

// A prompt is what a screen shows of a request to the model.
type prompt struct {
	settings string // "temperature 0.1, at most 600 tokens"
	system   string // beginning of the last system message
	inputs   string // what the user's message quotes
}

// stageTag matches a quotation of an earlier stage, with its name.
var stageTag = regexp.MustCompile(`<stage name="([^"]*)">`)

func promptOf(body []byte) (p prompt) {
	var req struct {
		chatRequest
		Temperature *float64
		MaxTokens   int `json:"max_tokens"`
		MaxOutput   int `json:"max_completion_tokens"`
	}
	if json.Unmarshal(body, &req) != nil {
		return prompt{inputs: "nothing"}
	}
	settings, inputs := []string(nil), []string{"question"}
	if req.Temperature != nil {
		settings = append(settings, fmt.Sprintf("temperature %g", *req.Temperature))
	}
	if most := max(req.MaxTokens, req.MaxOutput); most > 0 {
		settings = append(settings, fmt.Sprintf("at most %s tokens", terminal.Thousands(most)))
	}
	for _, m := range req.Messages {
		if m.Role != "user" {
			p.system, _, _ = strings.Cut(strings.TrimSpace(string(m.Content)), "\n\n")
			continue
		}
		if n := len(sourceElement.FindAllString(string(m.Content), -1)); n > 0 {
			inputs = append(inputs, terminal.Plural(n, "source"))
		}
		for _, tag := range stageTag.FindAllStringSubmatch(string(m.Content), -1) {
			inputs = append(inputs, tag[1])
		}
	}
	p.settings, p.inputs = strings.Join(settings, ", "), strings.Join(inputs, ", ")
	p.system = strings.Join(strings.Fields(p.system), " ")
	return p
}
