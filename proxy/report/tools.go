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

// WithTools is the outcome of a chat whose model was offered tools of ours.
const WithTools rewrite.Outcome = "tools"

// ToTools is the Purpose of calls behind the first one of a request, with what was called in the
// ones before.
const ToTools Purpose = "tools"

// A ToolOutcome says what became of a call of a tool. It is of a closed list.
type ToolOutcome string

// The outcomes.
const (
	ToolOK       ToolOutcome = "ok"
	ToolRefused  ToolOutcome = "refused"  // the arguments are wrong
	ToolFailed   ToolOutcome = "failed"   // the search failed, or was late
	ToolRepeated ToolOutcome = "repeated" // the same call was answered before
	ToolSkipped  ToolOutcome = "skipped"  // there was no room for its result, or too many were made at once
)

// A ToolCall is a call of a tool of ours.
type ToolCall struct {
	Round     int    // from 1
	Name      string // of the tool as it is configured, of a closed list
	Arguments string // as the model wrote them
	Hits      int    // how much it found
	Tokens    int    // of its result
	Took      time.Duration
	Outcome   ToolOutcome
}

// Tools are what a model did with tools of ours.
type Tools struct {
	Rounds   int // calls of the upstream
	Calls    []ToolCall
	Beyond   int                   // calls that Calls has no room for
	Tokens   int                   // of all results
	Sources  []rewrite.SourceEntry // that results gave, by their ids in the prompt
	Texts    []string              // of Sources
	Ended    bool                  // the rest is known to the end
	Restored int                   // turns of earlier requests that were put back
	Unkept   TurnLoss              // why the turn that goes on in the client's next request is not kept; "" if it is, or there is none
	nextID   int
}

// Called counts the calls.
func (t *Tools) Called() int { return len(t.Calls) + t.Beyond }

// A TurnLoss says why what a client does not see of a turn is not kept. It is of a closed list.
type TurnLoss string

// The losses.
const (
	TurnTooLarge TurnLoss = "size"    // it is larger than one may be
	TurnUnsound  TurnLoss = "unsound" // as the upstream said it, no upstream would take it back
)

// StartAt sets the id of the first source that results give.
func (t *Tools) StartAt(id int) { t.nextID = id }

// maxToolCalls is how many calls, and sources of them, are remembered of a request.
const maxToolCalls = 256

// Add notes a call and the sources that it gave.
func (t *Tools) Add(c ToolCall, sources []retrieval.Source) {
	t.Tokens += c.Tokens
	if len(t.Calls) < maxToolCalls {
		t.Calls = append(t.Calls, c)
	} else {
		t.Beyond++
	}
	for i := range sources {
		s := &sources[i]
		if len(t.Sources) < maxToolCalls {
			t.Sources = append(t.Sources, rewrite.SourceEntry{
				ID: t.nextID, Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section, Relevance: s.Relevance, Fate: rewrite.In,
			})
			t.Texts = append(t.Texts, s.Text)
		}
		t.nextID++
	}
}

// Given returns the sources that results gave, without their texts, for GiveAgain in the next request
// of a conversation; nil if there are none.
func (t *Tools) Given() json.RawMessage {
	if len(t.Sources) == 0 {
		return nil
	}
	b, err := json.Marshal(t.Sources)
	if err != nil {
		panic("BUG: encode sources: " + err.Error())
	}
	return b
}

// GiveAgain adds the sources of an earlier request whose results stand in the prompt again.
func (t *Tools) GiveAgain(given json.RawMessage) {
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

// Rounds are what the rounds of a request before its last one used and were charged.
type Rounds struct {
	usage   answer.Usage
	unknown bool // an answer did not tell what it used
	charged budget.Amount
	n       int
}

// Counted tells whether one of them is the client's request to its tenant's limits.
func (b *Rounds) Counted() bool { return b.charged.Requests > 0 }

// EndRound moves what a round used from r, where the next one's will stand.
func (r *Report) EndRound(before *Rounds) {
	u := &before.usage
	u.Input, u.CachedInput = u.Input+r.Usage.Input, u.CachedInput+r.Usage.CachedInput
	u.CacheWrite, u.CacheWrite1h = u.CacheWrite+r.Usage.CacheWrite, u.CacheWrite1h+r.Usage.CacheWrite1h
	u.Output, u.Reasoning = u.Output+r.Usage.Output, u.Reasoning+r.Usage.Reasoning
	before.unknown = before.unknown || r.UsageFound != "" && !r.Usage.Known // of a call without an answer nothing is to be told
	r.Stages.used(r.Usage)
	before.charged = plus(before.charged, r.Budget.Charged)
	before.n++
	r.Usage, r.UsageFound, r.Answered, r.Generated, r.Budget.Charged = answer.Usage{}, "", answer.Named{}, answer.CountedUsage{}, budget.Amount{}
}

// AddRounds adds what the rounds before the last one used.
func (r *Report) AddRounds(before *Rounds) {
	if before.n == 0 {
		r.Stages.used(r.Usage)
		return
	}
	unknown := r.UsageFound != "" && !r.Usage.Known
	r.EndRound(before)
	r.Usage, r.Budget.Charged = before.usage, before.charged
	r.Usage.Known = !before.unknown
	r.UsageFound = answer.UsageFound
	if before.unknown || unknown {
		r.UsageFound = answer.UsagePartial
	}
}

func plus(a, b budget.Amount) budget.Amount {
	return budget.Amount{Requests: a.Requests + b.Requests, Tokens: a.Tokens + b.Tokens, Injected: a.Injected + b.Injected, Money: a.Money + b.Money}
}

// Injected tells whether sources or other components were added to the prompt that went up, with
// tools, in stages, or without.
func (r *Report) Injected() bool {
	return r.Outcome == rewrite.Injected || (r.Outcome == WithTools || r.Outcome == Staged) && r.Rewrite.Outcome == rewrite.Injected
}

// injectedTokens names the tokens that were added to the prompt. Of a chat with tools, tokens are
// those of the results.
func injectedTokens(r *Report) string {
	if r.Tools != nil {
		return "injected"
	}
	return "tokens"
}

// AppendAllSources appends the value of Sidenote-Sources: the sources in the prompt, and those that
// results of tools gave, as far as they are known by now.
func AppendAllSources(dst []byte, r *Report) []byte {
	if r.Outcome != rewrite.Injected && r.Outcome != WithTools && r.Outcome != Staged {
		return dst
	}
	all := r.Rewrite.Ledger.Sources
	if r.Tools != nil && len(r.Tools.Sources) > 0 {
		all = slices.Concat(all, r.Tools.Sources)
	}
	return AppendSources(dst, all, r.Expose)
}

// AppendClosing appends what a stream that Sidenote writes says at its end, as a comment: its status
// and its sources.
func AppendClosing(dst []byte, r *Report) []byte {
	dst = AppendStatus(append(dst, "sidenote-status: "...), r)
	sources := AppendAllSources(nil, r)
	if len(sources) == 0 {
		return dst
	}
	return append(append(dst, " sidenote-sources: "...), sources...)
}
