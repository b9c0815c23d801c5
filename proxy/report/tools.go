package report

import (
	"time"

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
	Round     int // from 1
	Name      string
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
	Tokens   int                   // of all results
	Sources  []rewrite.SourceEntry // that results gave, by their ids in the prompt
	Restored int                   // turns of earlier requests that were put back
	nextID   int
}

// StartAt sets the id of the first source that results give.
func (t *Tools) StartAt(id int) { t.nextID = id }

// maxToolCalls is how many calls, and sources of them, are remembered of a request.
const maxToolCalls = 256

// Add notes a call and the sources that it gave.
func (t *Tools) Add(c ToolCall, sources []retrieval.Source) {
	t.Tokens += c.Tokens
	if len(t.Calls) < maxToolCalls {
		t.Calls = append(t.Calls, c)
	}
	for i := range sources {
		s := &sources[i]
		if len(t.Sources) < maxToolCalls {
			t.Sources = append(t.Sources, rewrite.SourceEntry{
				ID: t.nextID, Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section, Relevance: s.Relevance, Fate: rewrite.In,
			})
		}
		t.nextID++
	}
}
