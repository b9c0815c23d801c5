package explain

import (
	"cmp"
	"strings"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
)

// Stages are what became of a chat that is answered in stages.
type Stages struct {
	Of     int     `json:"of"`               // stages of the chain
	Answer string  `json:"answer,omitempty"` // the stage whose output is the answer; absent: none is
	Called []Stage `json:"called"`
}

// A Stage is a stage that was called, or whose output was remembered.
type Stage struct {
	Name     string              `json:"stage"`
	At       int                 `json:"at"` // its place in the chain, from 1
	Upstream string              `json:"upstream"`
	Model    string              `json:"model"`
	Calls    int                 `json:"calls"`            // of the upstream; 0: its output was remembered, or nothing was sent
	Status   int                 `json:"status,omitempty"` // of the last answer; 0: there was none
	Took     float64             `json:"took_ms"`
	Outcome  report.StageOutcome `json:"outcome"`
	Finish   string              `json:"finish_reason,omitempty"`
	Usage    *StageUsage         `json:"usage,omitempty"` // nil if its answer did not tell it

	// To the extent that bodies are kept: the body of its request, which has its messages, and its text.
	Request *Body `json:"request,omitempty"`
	Output  *Body `json:"output,omitempty"`
}

// A StageUsage is what the answer to a stage used, in tokens, as it told it.
type StageUsage struct {
	Input        int64 `json:"input_tokens"`
	CachedInput  int64 `json:"cached_input_tokens"`             // part of Input
	CacheWrite   int64 `json:"cache_write_tokens,omitempty"`    // likewise: written into the upstream's cache
	CacheWrite1h int64 `json:"cache_write_1h_tokens,omitempty"` // part of CacheWrite
	Output       int64 `json:"output_tokens"`
	Reasoning    int64 `json:"reasoning_tokens"` // part of Output
}

// A spoken is what is kept of what a stage was asked and said.
type spoken struct{ request, output *Body }

func (s *spoken) size() (n int) {
	for _, b := range [...]*Body{s.request, s.output} {
		if b != nil {
			n += len(b.Text)
		}
	}
	return n
}

// spoken copies what may be kept of what the stages of a chat were asked and said.
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

// trimStages returns a copy of s without what the stages were asked and said.
func trimStages(s *report.Stages) *report.Stages {
	if s == nil {
		return nil
	}
	kept := &report.Stages{Of: s.Of, Answer: s.Answer, Called: append([]report.Stage(nil), s.Called...)}
	for i := range kept.Called {
		c := &kept.Called[i]
		c.Request, c.Output = nil, ""
		c.Model, c.Finish = strings.Clone(short(c.Model)), strings.Clone(short(c.Finish)) // no part of a long text
	}
	return kept
}

// explainStages says what is kept of stages. upstream is that of the chat, which stages without their
// own ask.
func explainStages(s *report.Stages, upstream string) *Stages {
	if s == nil {
		return nil
	}
	e := &Stages{Of: s.Of, Answer: s.Answer, Called: []Stage{}}
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

// say adds what the stages were asked and said, as far as it is kept, without what looks like a key.
func (s *Stages) say(kept *body) {
	if s == nil || kept == nil {
		return
	}
	for i := range min(len(s.Called), len(kept.stages)) {
		s.Called[i].Request, s.Called[i].Output = kept.stages[i].request.masked(), kept.stages[i].output.masked()
	}
}
