package explain

import (
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// Tools describe the tool calls of a chat.
type Tools struct {
	Rounds       int             `json:"rounds"` // calls of the upstream
	Tokens       int             `json:"tokens"` // of all results
	Restored     int             `json:"restored,omitempty"`
	TurnLoss     report.TurnLoss `json:"unkept,omitempty"`
	Calls        []ToolCall      `json:"calls"`             // the first 50
	CallsOmitted int             `json:"beyond,omitempty"`  // number of calls left out of Calls
	Sources      []ToolSource    `json:"sources,omitempty"` // from tool results
}

// A ToolCall is a call of a tool.
type ToolCall struct {
	Round     int                `json:"round"` // from 1
	Tool      string             `json:"tool"`
	Arguments string             `json:"arguments,omitempty"` // as the model wrote them, in the form in which bodies are kept
	Hits      int                `json:"hits"`
	Tokens    int                `json:"tokens"` // of its result
	Took      float64            `json:"took_ms"`
	Outcome   report.ToolOutcome `json:"outcome"`
}

// A ToolSource is a source from a tool result.
type ToolSource struct {
	ID        int     `json:"id"` // in the prompt
	Knowledge string  `json:"kb_id"`
	Doc       string  `json:"doc_id"`
	Chunk     int     `json:"chunk"`
	Name      string  `json:"name"`
	Section   string  `json:"section,omitempty"`
	Relevance float64 `json:"relevance,omitempty"` // 0 if it does not come from a search
}

// Limits of what is kept about tools.
const (
	maxCalls     = 50
	maxArguments = 1 << 10 // bytes of arguments that are read
)

// trimTools returns a copy of t within the limits, with at most room sources. keep copies the
// arguments in the form in which bodies are kept; nil drops them.
func trimTools(t *report.Tools, room int, keep func([][]byte) Body) *report.Tools {
	if t == nil {
		return nil
	}
	kept := &report.Tools{Rounds: t.Rounds, Tokens: t.Tokens, Restored: t.Restored, TurnLoss: t.TurnLoss, CallsOmitted: t.CallsOmitted}
	n := min(len(t.Calls), maxCalls)
	kept.CallsOmitted += len(t.Calls) - n
	kept.Calls = append(kept.Calls, t.Calls[:n]...)
	for i := range kept.Calls {
		c := &kept.Calls[i]
		if c.Name = short(c.Name); keep == nil {
			c.Arguments = ""
			continue
		}
		c.Arguments = short(keep([][]byte{[]byte(c.Arguments[:min(len(c.Arguments), maxArguments)])}).Text)
	}
	kept.Sources = shortNames(append([]rewrite.SourceEntry(nil), t.Sources[:min(len(t.Sources), max(room, 0))]...))
	return kept
}

// explainTools converts t, with keys masked.
func explainTools(t *report.Tools) *Tools {
	if t == nil {
		return nil
	}
	e := &Tools{Rounds: t.Rounds, Tokens: t.Tokens, Restored: t.Restored, TurnLoss: t.TurnLoss, Calls: []ToolCall{}, CallsOmitted: t.CallsOmitted}
	for i := range t.Calls {
		c := &t.Calls[i]
		arguments := (&Body{Text: c.Arguments}).masked().Text
		e.Calls = append(e.Calls, ToolCall{c.Round, c.Name, arguments, c.Hits, c.Tokens, report.Milliseconds(c.Took), c.Outcome})
	}
	for i := range t.Sources {
		s := &t.Sources[i]
		e.Sources = append(e.Sources, ToolSource{s.ID, s.Knowledge, s.Doc, s.Chunk, s.Name, s.Section, s.Relevance})
	}
	return e
}
