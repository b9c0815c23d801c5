// Package model describes a model: how its tokens are counted, what is billed for them, and how
// much of its context window a request leaves.
package model

import (
	"math"

	"sidenote/retrieval"
	"sidenote/rewrite/tokens"
)

// A Model is a row of the model table, with what was learned about the upstream that runs it.
type Model struct {
	Row           string // the matching row of the model table, or "other"; used as metric label
	Encoding      string // such as "o200k_base"
	Window        int    // context window in tokens; 0 if unknown
	MaxOutput     int    // maximum tokens of one answer; 0 if unknown
	DefaultOutput int    // tokens to reserve for an answer without a limit; 0 if not in the table
	Estimated     bool   // no public tokenizer: counts include a margin
	NoSystem      bool   // refuses messages of the role system
	CompletionCap bool   // chats need max_completion_tokens; max_tokens is refused
	Tools         tokens.ToolUse
	Counter       retrieval.Counter

	FixedTemperature bool             // refuses requests with a temperature
	Reasoning        tokens.Reasoning // whether it reasons before it answers

	Images      tokens.ImageRule
	Calibration CalibrationValue // difference between the upstream's bills and our counts; zero if unknown
}

// Tokens that a model may use for reasoning before a short answer.
const (
	lowEffort   = 1536 // at low effort, and if the model's reasoning is unknown
	fixedEffort = 4096
)

// ReasoningTokens returns how many tokens to allow for reasoning in addition to the text of an
// answer, so that reasoning does not use up the limit.
func (m *Model) ReasoningTokens() int {
	switch m.Reasoning {
	case tokens.ReasoningNone:
		return 0
	case tokens.ReasoningFixed:
		return fixedEffort
	}
	return lowEffort
}

// LowEffort returns the reasoning_effort for a call that needs little reasoning; "" if the model
// is not known to accept it.
func (m *Model) LowEffort() string {
	if m.Reasoning == tokens.ReasoningEffort {
		return "low"
	}
	return ""
}

// Counting returns how the model's prompts are counted.
func (m *Model) Counting() CostModel {
	return CostModel{Encoding: m.Encoding, Counter: m.Counter, Images: m.Images}
}

// Ratio returns the maximum number of tokens billed per counted token: 1 if the encoding is the
// model's own.
func (m *Model) Ratio() float64 {
	switch {
	case !m.Estimated:
		return 1
	case m.Calibration.RatioUpper > 0:
		return m.Calibration.RatioUpper
	}
	return tokens.Margin
}

// rounding exceeds the rounding error of a count times a ratio.
const rounding = 1e-6

// Billed returns how many tokens may be billed for n counted ones.
func (m *Model) Billed(n int) int { return int(math.Ceil(float64(n)*m.Ratio() - rounding)) }

// Counted returns how many tokens may be counted so that at most n are billed.
func (m *Model) Counted(n int) int { return int(math.Floor(float64(n)/m.Ratio() + rounding/2)) }

// Reserves for errors of the formulas: OpenAI's formula for tools is known to be off by a few
// tokens, and by more with every schema.
const (
	formulaReserve = 16
	formulaShare   = 20 // one more token per this many tokens counted by formulas
)

// Reserve returns the tokens by which the bill may exceed the cost c. For an exact encoding this
// is the offset learned from the upstream's bills, plus an allowance if formulas were used: the
// samples behind the offset may be of requests without tools, so the offset does not cover them.
// For an estimated model the learned ratio already covers the offset.
func (m *Model) Reserve(c CostTokens) int {
	n := 0
	if !m.Estimated {
		n = max(m.Calibration.OffsetUpper, 0)
	}
	switch {
	case m.Estimated && c.Tools > 0:
		n += toolsPreamble
	case !m.Estimated && !c.Exact:
		n += formulaReserve + (c.Tools+c.Format)/formulaShare
	}
	return n
}
