// Package model has what a rewrite knows of a model: how its tokens are counted, what is billed for
// them, and what of its window a request leaves.
package model

import (
	"math"

	"sidenote/retrieval"
	"sidenote/rewrite/tokens"
)

// A Model is a row of the model table, with what was learnt of an upstream that runs it.
type Model struct {
	Row           string // matched row of the model table, "other" when none: the metric label
	Encoding      string // "o200k_base"
	Window        int    // tokens; 0 is unknown
	MaxOutput     int    // tokens of one answer at most; 0 is unknown
	DefaultOutput int    // tokens to reserve for an answer without a limit; 0 if the table gives none
	Estimated     bool   // no public tokenizer: counts carry a margin
	NoSystem      bool   // messages of the role system are refused
	CompletionCap bool   // chats take max_completion_tokens and refuse max_tokens
	Tools         tokens.ToolUse
	Counter       retrieval.Counter

	FixedTemperature bool             // requests with a temperature are refused
	Reasoning        tokens.Reasoning // whether it reasons before it answers

	Images      tokens.ImageRule
	Calibration CalibrationValue // how its upstream's bills differ from our counts; zero while unknown
}

// What models may spend on reasoning before a short answer, in tokens.
const (
	lowEffort   = 1536 // at low effort, and where nothing is known of a model
	fixedEffort = 4096
)

// ReasoningTokens returns how many tokens beside its text an answer is allowed, so that reasoning does not
// use up its limit.
func (m *Model) ReasoningTokens() int {
	switch m.Reasoning {
	case tokens.ReasoningNone:
		return 0
	case tokens.ReasoningFixed:
		return fixedEffort
	}
	return lowEffort
}

// LowEffort returns the reasoning_effort for a call whose answer needs little reasoning; "" if the model
// is not known to take it.
func (m *Model) LowEffort() string {
	if m.Reasoning == tokens.ReasoningEffort {
		return "low"
	}
	return ""
}

// Counting is how the model's prompts are counted.
func (m *Model) Counting() CostModel {
	return CostModel{Encoding: m.Encoding, Counter: m.Counter, Images: m.Images}
}

// Ratio returns how many tokens are billed at most for each counted one: 1 if the
// encoding is the model's own.
func (m *Model) Ratio() float64 {
	switch {
	case !m.Estimated:
		return 1
	case m.Calibration.RatioUpper > 0:
		return m.Calibration.RatioUpper
	}
	return tokens.Margin
}

// rounding is more than the rounding error of a count times a ratio.
const rounding = 1e-6

// Billed returns how many tokens may be billed for n counted ones.
func (m *Model) Billed(n int) int { return int(math.Ceil(float64(n)*m.Ratio() - rounding)) }

// Counted returns how many tokens may be counted so that at most n are billed.
func (m *Model) Counted(n int) int { return int(math.Floor(float64(n)/m.Ratio() + rounding/2)) }

// Reserves for the errors of formulas: OpenAI's formula for tools is known to be off by
// a few tokens, and by more with every schema.
const (
	formulaReserve = 16
	formulaShare   = 20 // one token more for so many tokens counted by formulas
)

// Reserve returns the tokens by which the bill may exceed the cost c. For an exact
// encoding that is the offset learnt from the upstream's bills, plus an allowance if
// formulas took part: the samples behind the offset may be of requests without tools,
// so the offset does not cover them. For an estimated model the learnt ratio stands for
// the offset already.
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
