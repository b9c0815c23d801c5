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

// A StageOutcome says what became of a stage. It is of a closed list.
type StageOutcome string

// The outcomes. Those behind StageEmpty are failures.
const (
	StageOK        StageOutcome = "ok"
	StageStopped   StageOutcome = "stopped"      // its first line ended the chain: the draft before it is the answer
	StageEmpty     StageOutcome = "empty"        // its first line says that nothing was found
	StageConnect   StageOutcome = "connect"      // nothing was sent
	StageLimited   StageOutcome = "rate-limit"   // the upstream answered 429
	StageRefused   StageOutcome = "refused"      // the upstream answered another 4xx
	StageServer    StageOutcome = "server-error" // the upstream answered 5xx, or anything else that is no answer
	StageTimeout   StageOutcome = "timeout"      // of the stage, or of the chain
	StageBroken    StageOutcome = "broken"       // the upstream closed before an answer, or within it
	StageInvalid   StageOutcome = "invalid"      // the answer is not one to a chat
	StageSilent    StageOutcome = "silent"       // the answer has no text
	StageBudget    StageOutcome = "budget"       // the tenant's limits have no room for it
	StageNoMemory  StageOutcome = "memory"       // there is no memory for its answer
	StageLeft      StageOutcome = "client-left"  // the client left meanwhile
	StageUnpriced  StageOutcome = "no-price"     // money is limited, and nobody knows what its model costs
	StageUnsettled StageOutcome = "ledger"       // what the tenant used cannot be looked up
)

// Failed tells whether a stage has given nothing to go on with.
func (o StageOutcome) Failed() bool { return o != StageOK && o != StageStopped && o != StageEmpty }

// A Stage is a stage that was called, or whose output was remembered.
type Stage struct {
	Name     string // as it is configured
	At       int    // its place in the chain, from 1
	Upstream string // name
	Model    string // as the request of the stage names it
	Calls    int    // of the upstream; 0: its output was remembered, or nothing was sent
	Status   int    // of the last answer; 0: there was none
	Took     time.Duration
	Outcome  StageOutcome
	Finish   string       // the reason to finish; "" if none was told
	Usage    answer.Usage // as the answer told it
	Request  []byte       // its body; nil if nothing was sent
	Output   string       // its text
}

// Stages are what became of a chat that is answered in stages.
type Stages struct {
	Of     int // stages of the chain
	Called []Stage
	Answer string // the stage whose output is the answer; "": none is
	Ended  bool   // the rest is known to the end
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

// used notes what the last call used.
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

// StageFailed says why the stage failed without which a request went on; "" if none did. A limit of
// the tenant's is no failure, nor is a client that left.
func (r *Report) StageFailed() StageOutcome {
	s := r.Stages.Failed()
	if s == nil || s.Outcome == StageLeft || s.Outcome == StageBudget || r.Outcome == rewrite.Refused || r.Outcome == Failed {
		return ""
	}
	return s.Outcome
}

// appendStaged appends what came of the stages, as far as it is known.
func appendStaged(dst []byte, r *Report) []byte {
	s := r.Stages
	if s == nil {
		if r.Unstaged != "" {
			dst = appendToken(append(dst, "; unstaged="...), r.Unstaged)
		}
		return dst
	}
	if !s.Ended {
		return appendCount(dst, "stages", s.Of)
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

// appendStageName appends a stage's name as a token if it begins like one, with a letter, else as a
// String: parsers would take the first digit of "2nd" for a number.
func appendStageName(dst []byte, name string) []byte {
	if name == "" || name[0]|0x20 < 'a' || name[0]|0x20 > 'z' {
		return appendString(dst, name)
	}
	return appendToken(dst, name)
}
