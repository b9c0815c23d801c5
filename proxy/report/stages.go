package report

import (
	"time"

	"sidenote/proxy/answer"
	"sidenote/rewrite"
)

// Staged is the outcome of a chat that was answered in stages.
const Staged rewrite.Outcome = "staged"

// ToStage is the Purpose of the calls of stages.
const ToStage Purpose = "stage"

// A StageOutcome is the result of a stage, from a closed list.
type StageOutcome string

// The outcomes. Those after StageEmpty are failures.
const (
	StageOK        StageOutcome = "ok"
	StageStopped   StageOutcome = "stopped"      // its first line ended the chain: the previous draft is the answer
	StageEmpty     StageOutcome = "empty"        // its first line says that nothing was found
	StageConnect   StageOutcome = "connect"      // nothing was sent
	StageLimited   StageOutcome = "rate-limit"   // the upstream answered 429
	StageRefused   StageOutcome = "refused"      // the upstream answered another 4xx
	StageServer    StageOutcome = "server-error" // the upstream answered 5xx, or sent no valid HTTP answer
	StageTimeout   StageOutcome = "timeout"      // of the stage, or of the chain
	StageBroken    StageOutcome = "broken"       // the upstream closed before or within an answer
	StageInvalid   StageOutcome = "invalid"      // the answer is not a chat completion
	StageSilent    StageOutcome = "silent"       // the answer has no text
	StageBudget    StageOutcome = "budget"       // the tenant's limits do not allow it
	StageNoMemory  StageOutcome = "memory"       // no memory for its answer
	StageLeft      StageOutcome = "client-left"  // the client left
	StageUnpriced  StageOutcome = "no-price"     // money is limited, and the model's price is unknown
	StageUnsettled StageOutcome = "ledger"       // the tenant's usage cannot be read
)

// Failed reports whether a stage gave no result to continue with.
func (o StageOutcome) Failed() bool { return o != StageOK && o != StageStopped && o != StageEmpty }

// A Stage is a stage that was called, or whose output was cached.
type Stage struct {
	Name     string // configured name
	At       int    // position in the chain, from 1
	Upstream string // name
	Model    string // as named in the request of the stage
	Calls    int    // of the upstream; 0 if its output was cached, or nothing was sent
	Status   int    // of the last answer; 0 if there was none
	Took     time.Duration
	Outcome  StageOutcome
	Finish   string       // finish reason; "" if not reported
	Usage    answer.Usage // as reported
	Request  []byte       // request body; nil if nothing was sent
	Output   string       // text of the answer
}

// Stages describe a chat that is answered in stages.
type Stages struct {
	Total  int // number of stages in the chain
	Called []Stage
	Answer string // the stage whose output is the answer; "" if none is
	Ended  bool   // the other fields are final
}

// Last returns the stage that was called last; nil if none was.
func (s *Stages) Last() *Stage {
	if s == nil || len(s.Called) == 0 {
		return nil
	}
	return &s.Called[len(s.Called)-1]
}

// Answering returns the stage whose output is the answer; nil if none is.
func (s *Stages) Answering() *Stage {
	if s == nil || s.Answer == "" {
		return nil
	}
	for i := range s.Called {
		if s.Called[i].Name == s.Answer {
			return &s.Called[i]
		}
	}
	return nil
}

// Failed returns the stage that failed; nil if none did.
func (s *Stages) Failed() *Stage {
	if last := s.Last(); last != nil && last.Outcome.Failed() {
		return last
	}
	return nil
}

// used sets the usage of the last call.
func (s *Stages) used(u answer.Usage) {
	if s == nil {
		return
	}
	for i := len(s.Called) - 1; i >= 0; i-- {
		if s.Called[i].Calls > 0 {
			s.Called[i].Usage = u
			return
		}
	}
}

// StageFailed returns the failure of a stage that the request went on without; "" if there is
// none. Exhausted limits and a client that left do not count as failures.
func (r *Report) StageFailed() StageOutcome {
	s := r.Stages.Failed()
	if s == nil || s.Outcome == StageLeft || s.Outcome == StageBudget || r.Outcome == rewrite.Refused || r.Outcome == Failed {
		return ""
	}
	return s.Outcome
}

// appendStaged appends the outcome of the stages, as far as it is known.
func appendStaged(dst []byte, r *Report) []byte {
	s := r.Stages
	if s == nil {
		if r.StagesSkipped != "" {
			dst = appendToken(append(dst, "; unstaged="...), r.StagesSkipped)
		}
		return dst
	}
	if !s.Ended {
		return appendCount(dst, "stages", s.Total)
	}
	dst = appendCount(dst, "stages", len(s.Called))
	last := s.Last()
	if last == nil {
		return dst
	}
	switch {
	case last.Outcome.Failed():
		dst = appendStageName(append(dst, "; failed="...), last.Name)
		dst = appendToken(append(dst, "; failure="...), string(last.Outcome))
	case last.Outcome != StageOK:
		dst = appendToken(append(dst, "; "...), string(last.Outcome))
		dst = appendStageName(append(dst, '='), last.Name)
	}
	if s.Answer != "" && s.Answer != last.Name {
		dst = appendStageName(append(dst, "; answered="...), s.Answer)
	}
	return dst
}

// appendStageName appends a stage's name as a token if it begins with a letter, else as a String:
// parsers would read "2nd" as a number.
func appendStageName(dst []byte, name string) []byte {
	if name == "" || name[0]|0x20 < 'a' || name[0]|0x20 > 'z' {
		return appendString(dst, name)
	}
	return appendToken(dst, name)
}
