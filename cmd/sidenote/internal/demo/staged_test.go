package demo_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/rewrite"
	"sidenote/rewrite/goldentest"
)

// stagedStory returns the story of a question that a stub answered by the stages of a preset.
func stagedStory(t *testing.T, preset, question string) *demo.StagedStory {
	t.Helper()
	_, sources, _ := strings.Cut(block, "\n\n")
	names := map[demo.Part]string{
		demo.PartEvidence: "evidence_evaluator", demo.PartDraft: "answer_generator", demo.PartCritique: "critical_reviewer", demo.PartFinal: "final_assembler",
	}
	said := chain(t, preset, sources, question)
	s := &demo.StagedStory{
		Question: question, Documents: 14, Chunks: 1061, Index: 38 * time.Millisecond, Preset: preset, Of: 4, Address: "127.0.0.1:8080",
		Original: []byte(`{"model":"demo"}`), ID: "chatcmpl-demo", Finish: "stop", Status: "staged; stages=4; sources=3", Took: 12 * time.Millisecond,
		Sources: []rewrite.SourceEntry{{ID: 1, Doc: "leave.md", Section: "Parental leave"}, {ID: 2, Doc: "leave.md", Section: "Eligibility"}, {ID: 3, Doc: "office.md", Section: "Dogs"}},
	}
	for i, e := range said {
		s.Stages = append(s.Stages, demo.StageStory{Name: names[e.Part], At: i + 1, Outcome: "ok", Sent: e.Request, Exchange: e, Took: time.Duration(i+1) * time.Millisecond})
		s.Answer = e.Answer
	}
	s.Cited = []int{1, 2}
	if last := &s.Stages[len(said)-1]; last.Exchange.Part == demo.PartCritique {
		last.Outcome, s.Answer, s.Cited = "stopped", said[len(said)-2].Answer, []int{3}
	}
	return s
}

// A screen shows the prompt and output of each stage, in 40 lines.
func TestStagedScreens(t *testing.T) {
	whole, stopped := stagedStory(t, "medical", demo.Question), stagedStory(t, "medical", "Are dogs welcome?")
	long := stagedStory(t, "medical", demo.Question)
	for i := range long.Stages {
		long.Stages[i].Exchange.Answer = strings.Repeat("word ", 200) + fmt.Sprintf("end %d", i)
	}
	long.Answer = long.Stages[3].Exchange.Answer
	for name, c := range map[string]struct {
		story *demo.StagedStory
		look  demo.Look
	}{
		"staged": {whole, demo.Look{}}, "staged_full": {whole, demo.Look{Full: true}}, "staged_stopped": {stopped, demo.Look{}},
		"staged_long": {long, demo.Look{}}, "staged_none": {&demo.StagedStory{Question: "Q", Preset: "medical"}, demo.Look{}},
	} {
		got := demo.RenderStaged(c.story, c.look)
		goldentest.Text(t, "testdata/"+name+".golden", got)
		if c.look.Full {
			continue
		}
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		if len(lines) > 40 {
			t.Errorf("%s: %d lines", name, len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > demo.Width {
				t.Errorf("%s: %d columns: %q", name, n, line)
			}
		}
	}
}

// Check accepts only a complete chain whose answer is the model's and cites only what it was
// shown.
func TestStagedStoryJudges(t *testing.T) {
	for want, change := range map[string]func(s *demo.StagedStory){
		"":                                       func(*demo.StagedStory) {},
		"the request was not answered in stages": func(s *demo.StagedStory) { s.Stages = nil },
		"stage critical_reviewer did not arrive": func(s *demo.StagedStory) { s.Stages[2].Sent = []byte("{}") },
		"stage final_assembler did not arrive":   func(s *demo.StagedStory) { s.Stages[3].Exchange, s.Stages[3].Sent = demo.Exchange{}, nil },
		"stage final_assembler ended the chain: timeout": func(s *demo.StagedStory) { s.Stages[3].Outcome = "timeout" },
		"the chain ended with stage 3 of 4":              func(s *demo.StagedStory) { s.Stages = s.Stages[:3] },
		"the answer is not what the last stage said":     func(s *demo.StagedStory) { s.Answer += "." },
		"the answer cites no sources":                    func(s *demo.StagedStory) { s.Cited = nil },
		"the answer cites source 9, which no stage":      func(s *demo.StagedStory) { s.Cited = []int{9} },
		"the answer cites source 4, which no stage was show": func(s *demo.StagedStory) {
			s.Sources, s.Cited = append(s.Sources, rewrite.SourceEntry{ID: 4}), []int{4}
		},
	} {
		s := stagedStory(t, "medical", demo.Question)
		change(s)
		err := s.Check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
	stopped := stagedStory(t, "medical", "Are dogs welcome?")
	if err := stopped.Check(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	text, err := stopped.JSON()
	var got struct {
		Arrived bool `json:"stages_arrived"`
		Stages  []struct {
			Name, Part, Said, Outcome string
			Request                   struct{ Messages []any }
		}
	}
	if err != nil || json.Unmarshal(text, &got) != nil || !got.Arrived || len(got.Stages) != 3 ||
		got.Stages[2].Part != "critique" || got.Stages[2].Said != "NO ISSUES" || got.Stages[2].Outcome != "stopped" || len(got.Stages[2].Request.Messages) != 3 {
		t.Errorf("JSON %v, %s", err, text)
	}
}
