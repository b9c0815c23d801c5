package report

import (
	"encoding/json"
	"slices"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// WithTools is the outcome of a chat whose model was offered Sidenote's tools.
const WithTools rewrite.Outcome = "tools"

// ToTools is the Purpose of the calls after the first one of a request, which carry the results of
// tool calls.
const ToTools Purpose = "tools"

// A ToolOutcome is the result of a tool call, from a closed list.
type ToolOutcome string

// The outcomes of tool calls.
const (
	ToolOK       ToolOutcome = "ok"
	ToolRefused  ToolOutcome = "refused"  // the arguments are wrong
	ToolFailed   ToolOutcome = "failed"   // the search failed or was late
	ToolRepeated ToolOutcome = "repeated" // the same call was answered before
	ToolSkipped  ToolOutcome = "skipped"  // no room for its result, or too many calls at once
)

// A ToolCall is a call of one of Sidenote's tools.
type ToolCall struct {
	Round     int    // from 1
	Name      string // configured name of the tool, from a closed list
	Arguments string // as the model wrote them
	Hits      int    // number of results found
	Tokens    int    // of its result
	Took      time.Duration
	Outcome   ToolOutcome
}

// Tools are the tool calls of a chat.
type Tools struct {
	Rounds       int // calls of the upstream
	Calls        []ToolCall
	CallsOmitted int                   // number of calls left out of Calls
	Tokens       int                   // of all results
	Sources      []rewrite.SourceEntry // from tool results, by their ids in the prompt
	Texts        []string              // texts of Sources
	Ended        bool                  // the other fields are final
	Restored     int                   // turns of earlier requests that were put back
	TurnLoss     TurnLoss              // why the turn is not kept for the client's next request; "" if it is, or there is none
	nextID       int
}

// Called returns the number of calls.
func (t *Tools) Called() int { return len(t.Calls) + t.CallsOmitted }

// A TurnLoss is the reason why the part of a turn that clients do not see is not kept. It is from
// a closed list.
type TurnLoss string

// The reasons.
const (
	TurnTooLarge TurnLoss = "size"    // too large
	TurnUnsound  TurnLoss = "unsound" // no upstream would accept it back as the upstream sent it
)

// StartAt sets the id of the first source of tool results.
func (t *Tools) StartAt(id int) { t.nextID = id }

// maxToolCalls limits the calls, and the sources of results, recorded for a request.
const maxToolCalls = 256

// Add records a call and the sources in its result.
func (t *Tools) Add(c ToolCall, sources []retrieval.Source) {
	t.Tokens += c.Tokens
	if len(t.Calls) < maxToolCalls {
		t.Calls = append(t.Calls, c)
	} else {
		t.CallsOmitted++
	}
	for i := range sources {
		s := &sources[i]
		if len(t.Sources) < maxToolCalls {
			t.Sources = append(t.Sources, rewrite.SourceEntry{
				ID: t.nextID, Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section, Relevance: s.Relevance, Inclusion: rewrite.Included,
			})
			t.Texts = append(t.Texts, s.Text)
		}
		t.nextID++
	}
}

// MarshalSources returns the sources of tool results, without texts, for RestoreSources in the next
// request of a conversation; nil if there are none.
func (t *Tools) MarshalSources() json.RawMessage {
	if len(t.Sources) == 0 {
		return nil
	}
	b, err := json.Marshal(t.Sources)
	if err != nil {
		panic("BUG: encode sources: " + err.Error())
	}
	return b
}

// RestoreSources adds the sources of an earlier request whose tool results are in the prompt again.
func (t *Tools) RestoreSources(given json.RawMessage) {
	var sources []rewrite.SourceEntry
	if json.Unmarshal(given, &sources) != nil {
		return
	}
	for i := range sources {
		s := &sources[i]
		known := slices.ContainsFunc(t.Sources, func(e rewrite.SourceEntry) bool { return e.ID == s.ID })
		if known || len(t.Sources) == maxToolCalls {
			continue
		}
		s.Cited, s.Support = 0, nil
		t.Sources, t.Texts = append(t.Sources, *s), append(t.Texts, "")
	}
}

// Rounds sum up usage and charges of the rounds of a request before its last one.
type Rounds struct {
	usage   answer.Usage
	unknown bool // an answer did not report usage
	context ContextUsage
	charged budget.Amount
	n       int
}

// Counted reports whether one of them was counted as a request against the tenant's limits.
func (b *Rounds) Counted() bool { return b.charged.Requests > 0 }

// EndRound moves the usage of a round from r to before, to make room for the next round.
func (r *Report) EndRound(before *Rounds) {
	u := &before.usage
	u.Input, u.CachedInput = u.Input+r.Usage.Input, u.CachedInput+r.Usage.CachedInput
	u.CacheWrite, u.CacheWrite1h = u.CacheWrite+r.Usage.CacheWrite, u.CacheWrite1h+r.Usage.CacheWrite1h
	u.Output, u.Reasoning = u.Output+r.Usage.Output, u.Reasoning+r.Usage.Reasoning
	before.unknown = before.unknown || r.UsageFound != "" && !r.Usage.Known // a call without an answer cannot report usage
	r.Stages.used(r.Usage)
	before.charged = plus(before.charged, r.Budget.Charged)
	before.context.add(&r.Context)
	before.n++
	r.Usage, r.UsageFound, r.Answered, r.Generated, r.Budget.Charged = answer.Usage{}, "", answer.ServedBy{}, answer.CountedUsage{}, budget.Amount{}
	r.Context, r.UsageDetail = ContextUsage{}, ""
}

// AddRounds adds the usage of the rounds before the last one to r.
func (r *Report) AddRounds(before *Rounds) {
	if before.n == 0 {
		r.Stages.used(r.Usage)
		return
	}
	unknown, detail := r.UsageFound != "" && !r.Usage.Known, r.UsageDetail
	r.EndRound(before)
	r.Usage, r.Budget.Charged, r.Context, r.UsageDetail = before.usage, before.charged, before.context, detail
	r.Usage.Known = !before.unknown
	r.UsageFound = answer.UsageFound
	if before.unknown || unknown {
		r.UsageFound = answer.UsagePartial
	}
}

func plus(a, b budget.Amount) budget.Amount {
	return budget.Amount{Requests: a.Requests + b.Requests, Tokens: a.Tokens + b.Tokens, Injected: a.Injected + b.Injected, Money: a.Money + b.Money}
}

// Injected reports whether sources or other components were added to the prompt sent upstream,
// with tools, in stages, or without.
func (r *Report) Injected() bool {
	return r.Outcome == rewrite.Injected || (r.Outcome == WithTools || r.Outcome == Staged) && r.Rewrite.Outcome == rewrite.Injected
}

// injectedTokens returns the parameter for the tokens added to the prompt. In a chat with tools,
// "tokens" means those of tool results.
func injectedTokens(r *Report) string {
	if r.Tools != nil {
		return "injected"
	}
	return "tokens"
}

// AppendAllSources appends the value of Sidenote-Sources: the sources in the prompt, those of
// earlier turns included, and those of tool results, as far as known.
func AppendAllSources(dst []byte, r *Report) []byte {
	if r.Outcome != rewrite.Injected && r.Outcome != WithTools && r.Outcome != Staged {
		return dst
	}
	all := r.Rewrite.Ledger.Sources
	if again := r.Rewrite.Ledger.Repeated; again != nil {
		all = slices.Concat(again.Sources, all)
	}
	if r.Tools != nil && len(r.Tools.Sources) > 0 {
		all = slices.Concat(all, r.Tools.Sources)
	}
	return AppendSources(dst, all, r.Expose)
}

// AppendClosing appends the comment that ends a stream written by Sidenote: status and sources.
func AppendClosing(dst []byte, r *Report) []byte {
	dst = AppendStatus(append(dst, "sidenote-status: "...), r)
	sources := AppendAllSources(nil, r)
	if len(sources) == 0 {
		return dst
	}
	return append(append(dst, " sidenote-sources: "...), sources...)
}

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
