package client

import (
	"cmp"
	"slices"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// A Result is an Answer in JSON.
type Result struct {
	Object   string          `json:"object"` // "answer"
	Question string          `json:"question"`
	ID       string          `json:"id"` // of the request
	Policy   string          `json:"policy"`
	Model    string          `json:"model"` // as named in the answer
	Outcome  rewrite.Outcome `json:"outcome"`
	Status   string          `json:"status"` // Sidenote-Status, as known at the end
	Answer   string          `json:"answer"`
	Finish   string          `json:"finish_reason"`
	Sources  []Source        `json:"sources"` // that the model was shown
	Stages   []Stage         `json:"stages,omitempty"`
	Usage    *Usage          `json:"usage,omitempty"` // of all calls, or of the last one if the policy says so; absent: not reported
	Took     float64         `json:"took_ms"`
}

// A Source is a source that the model was shown.
type Source struct {
	ID        int    `json:"id"`
	Knowledge string `json:"kb_id"`
	Doc       string `json:"doc_id"`
	Name      string `json:"name"`
	Section   string `json:"section,omitempty"`
	Date      string `json:"date,omitempty"` // if it is one of several versions of a document
	Cited     bool   `json:"cited"`
}

// A Stage is a stage that was called.
type Stage struct {
	Name     string              `json:"name"`
	At       int                 `json:"stage"` // its position in the chain, from 1
	Upstream string              `json:"upstream"`
	Model    string              `json:"model"`
	Calls    int                 `json:"calls"` // 0: its output was cached
	Outcome  report.StageOutcome `json:"outcome"`
	Finish   string              `json:"finish_reason,omitempty"`
	Usage    *Usage              `json:"usage,omitempty"`
	Took     float64             `json:"took_ms"`
	Text     string              `json:"text"`
}

// A Usage counts tokens.
type Usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

func usageOf(u answer.Usage) *Usage {
	if !u.Known {
		return nil
	}
	return &Usage{u.Input, u.Output}
}

// Result converts the answer to a question for JSON.
func (a *Answer) Result(question string) Result {
	r := &a.Report
	out := Result{
		Object: "answer", Question: question, ID: r.ID, Policy: r.Policy, Model: a.Model, Outcome: r.Outcome,
		Status: string(report.AppendStatus(nil, r)), Answer: a.Text, Finish: a.Finish, Sources: []Source{},
		Usage: usageOf(r.Usage), Took: report.Milliseconds(a.Took),
	}
	cited := Cited(a.Text)
	for _, s := range a.Sources() {
		out.Sources = append(out.Sources, Source{s.ID, s.Knowledge, s.Doc, s.Name, s.Section, s.Date, slices.Contains(cited, s.ID)})
	}
	if r.Stages == nil {
		return out
	}
	for i := range r.Stages.Called {
		s := &r.Stages.Called[i]
		out.Stages = append(out.Stages, Stage{
			Name: s.Name, At: s.At, Upstream: cmp.Or(s.Upstream, r.Upstream), Model: s.Model, Calls: s.Calls, Outcome: s.Outcome, Finish: s.Finish,
			Usage: usageOf(s.Usage), Took: report.Milliseconds(s.Took), Text: s.Output,
		})
	}
	return out
}
