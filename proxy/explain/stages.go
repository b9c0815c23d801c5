package explain

import (
	"cmp"
	"strings"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
)

// Stages describe a chat that is answered in stages.
type Stages struct {
	Total  int     `json:"of"`               // number of stages in the chain
	Answer string  `json:"answer,omitempty"` // the stage whose output is the answer; absent if none is
	Called []Stage `json:"called"`
}

// A Stage is a stage that was called, or whose output was cached.
type Stage struct {
	Name     string              `json:"stage"`
	At       int                 `json:"at"` // position in the chain, from 1
	Upstream string              `json:"upstream"`
	Model    string              `json:"model"`
	Calls    int                 `json:"calls"`            // of the upstream; 0 if its output was cached, or nothing was sent
	Status   int                 `json:"status,omitempty"` // of the last answer; 0 if there was none
	Took     float64             `json:"took_ms"`
	Outcome  report.StageOutcome `json:"outcome"`
	Finish   string              `json:"finish_reason,omitempty"`
	Usage    *StageUsage         `json:"usage,omitempty"` // nil if its answer did not report usage

	// Only if bodies are kept: the request body, including the messages, and the output text.
	Request *Body `json:"request,omitempty"`
	Output  *Body `json:"output,omitempty"`
}

// A StageUsage is the token usage that the answer to a stage reported.
type StageUsage struct {
	Input        int64 `json:"input_tokens"`
	CachedInput  int64 `json:"cached_input_tokens"`             // part of Input
	CacheWrite   int64 `json:"cache_write_tokens,omitempty"`    // part of Input: written into the upstream's cache
	CacheWrite1h int64 `json:"cache_write_1h_tokens,omitempty"` // part of CacheWrite
	Output       int64 `json:"output_tokens"`
	Reasoning    int64 `json:"reasoning_tokens"` // part of Output
}

// A spoken holds the kept input and output of a stage.
type spoken struct{ request, output *Body }

func (s *spoken) size() (n int) {
	for _, b := range [...]*Body{s.request, s.output} {
		if b != nil {
			n += len(b.Text)
		}
	}
	return n
}

// spoken copies the input and output of each stage in the form in which bodies are kept.
func (r *Ring) spoken(of *report.Stages) []spoken {
	list := make([]spoken, len(of.Called))
	for i := range of.Called {
		s := &of.Called[i]
		if s.Request != nil {
			b := r.copy([][]byte{s.Request})
			list[i].request = &b
		}
		if s.Output != "" {
			b := r.copyText(s.Output)
			list[i].output = &b
		}
	}
	return list
}

// trimStages returns a copy of s without the inputs and outputs of the stages.
func trimStages(s *report.Stages) *report.Stages {
	if s == nil {
		return nil
	}
	kept := &report.Stages{Total: s.Total, Answer: s.Answer, Called: append([]report.Stage(nil), s.Called...)}
	for i := range kept.Called {
		c := &kept.Called[i]
		c.Request, c.Output = nil, ""
		c.Model, c.Finish = strings.Clone(short(c.Model)), strings.Clone(short(c.Finish)) // copies, so that no longer text stays in memory
	}
	return kept
}

// explainStages converts s. upstream is that of the chat, which stages without their own use.
func explainStages(s *report.Stages, upstream string) *Stages {
	if s == nil {
		return nil
	}
	e := &Stages{Total: s.Total, Answer: s.Answer, Called: []Stage{}}
	for i := range s.Called {
		c := &s.Called[i]
		stage := Stage{
			Name: c.Name, At: c.At, Upstream: cmp.Or(c.Upstream, upstream), Model: c.Model, Calls: c.Calls, Status: c.Status,
			Took: report.Milliseconds(c.Took), Outcome: c.Outcome, Finish: c.Finish,
		}
		if u := c.Usage; u != (answer.Usage{}) {
			stage.Usage = &StageUsage{u.Input, u.CachedInput, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning}
		}
		e.Called = append(e.Called, stage)
	}
	return e
}

// say adds the kept inputs and outputs of the stages, with keys masked.
func (s *Stages) say(kept *body) {
	if s == nil || kept == nil {
		return
	}
	for i := range min(len(s.Called), len(kept.stages)) {
		s.Called[i].Request, s.Called[i].Output = kept.stages[i].request.masked(), kept.stages[i].output.masked()
	}
}
