// Package model describes a model: how its tokens are counted, what is billed for them, and how
// much of its context window a request leaves.
package model

import (
	"cmp"
	"math"
	"slices"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
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

	SearchResults bool // cites blocks of the type search_result by itself
	PromptCache   tokens.PromptCache

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

// Some servers truncate prompts that are longer than the window they were started with, and
// answer 200: Ollama by its num_ctx, LM Studio by its context length. They bill the truncated
// prompt. So a window shows in bills that are lower than the count and close to each other, while
// no complete prompt is billed at more.
const (
	// minCuts is how many truncated prompts are needed to detect a window.
	minCuts = 4
	// maxCuts is how many are kept.
	maxCuts = 16
	// leastWindow is the smallest window accepted. Servers that bill only what their prompt cache
	// lacked report small numbers for long prompts, too.
	leastWindow = 1024
)

// cut reports whether the prompt was truncated: less than two thirds of it was billed. No
// tokenizer differs that much from the ones used for counting.
func (s sample) cut() bool {
	return s.billed >= leastWindow && s.billed <= maxBilled && 3*s.billed < 2*s.counted
}

// A served is the observed window of an upstream.
type served struct {
	cuts  []int // bills of truncated prompts, oldest first, at most maxCuts
	quiet int   // answers since the last truncated prompt
}

// observe records an answer and returns the window; 0 is unknown. complete are the other samples.
// The window is forgotten when a prompt is billed at a third more, or when none was truncated for
// a while: the server may have been restarted with another one.
func (w *served) observe(s sample, complete []sample) int {
	switch {
	case s.cut():
		w.cuts = append(w.cuts[max(0, len(w.cuts)-maxCuts+1):len(w.cuts):len(w.cuts)], s.billed)
		w.quiet = 0
	case s.absurd() || len(w.cuts) == 0:
	default:
		w.quiet++
		if w.quiet > ringSize || 3*s.billed > 4*slices.Max(w.cuts) {
			*w = served{}
		}
	}
	return w.window(complete)
}

func (w *served) window(complete []sample) int {
	if len(w.cuts) < minCuts {
		return 0
	}
	most, near, whole := slices.Max(w.cuts), 0, 0
	for _, n := range w.cuts {
		if 4*n >= 3*most {
			near++
		}
	}
	for _, s := range complete {
		if !s.cut() {
			whole = max(whole, s.billed)
		}
	}
	if near < minCuts || 4*most < 3*whole {
		return 0
	}
	return max(most, whole)
}

// A Window says how a model's context window is divided for one request, in tokens:
//
//	request + reserved output + what is added ≤ size
//
// Only what is added shrinks; the client's messages are never changed.
type Window struct {
	Size           int         `json:"size"` // 0 if unknown
	Check          WindowCheck `json:"check"`
	ReservedOutput int         `json:"reserved_output_tokens"`
	Request        int         `json:"request"`              // the original request; under CheckBound, an upper bound
	Cost           *CostTokens `json:"components,omitempty"` // its parts, if counted
	Reserve        int         `json:"reserve"`              // part of Request: the reserve for errors of formulas
	Room           int         `json:"room"`                 // tokens left for what is added; negative if the request alone is too long
	Limits         bool        `json:"limits"`               // the window, not the policy, limits what is added
}

// A WindowCheck says how the request's size was determined.
type WindowCheck string

// The checks.
const (
	CheckNone    WindowCheck = "none"    // not checked, since nothing was to be added
	CheckUnknown WindowCheck = "unknown" // the window's size is unknown: only context_tokens is a limit
	CheckBound   WindowCheck = "bound"   // the request fits even if each of its bytes is a token
	CheckCount   WindowCheck = "count"   // the whole request was counted
)

// boundSlack is added to the bytes of a request for the tokens that chat templates put around
// messages; these are mostly fewer than the bytes of the JSON around them.
const boundSlack = 512

// Limits are a policy's limits for a request.
type Limits struct {
	ContextTokens int  // maximum tokens to add
	ReserveOutput int  // tokens for an answer whose length the request does not limit; 0 means Model.ReservedOutput
	CountWhole    bool // count the request even if its length shows that it fits
}

// Measure computes how much of the window a request leaves. A token has at least one byte, so a
// short request is bounded by its length and not counted. What an upstream bills beyond the
// request, such as a prompt of its own, is added from the calibration.
func (m *Model) Measure(r *chat.Request, messages *MessageCosts, l Limits) Window {
	size := m.Window
	if r.History.Continued() { // the upstream holds turns that cannot be counted here
		size = 0
	}
	w := Window{Size: size, Check: CheckUnknown, ReservedOutput: m.Reserved(r, l.ReserveOutput)}
	allowed := m.Allowed(l.ContextTokens)
	if size > 0 {
		w.Check = CheckBound
		w.Request = m.Bound(r)
	}
	if l.CountWhole || size > 0 && w.Request+w.ReservedOutput+allowed > size {
		c := messages.Count(m.Counting(), m.Window)
		if size > 0 {
			w.Check = CheckCount
		}
		w.Cost, w.Reserve = &c, m.Reserve(c)
		w.Request = m.Billed(c.Sum()) + w.Reserve
	}
	if size > 0 {
		w.Room = size - w.Request - w.ReservedOutput
		w.Limits = w.Room < allowed
	}
	return w
}

// Bound returns the maximum tokens that may be billed for a request, according to its length.
func (m *Model) Bound(r *chat.Request) int {
	n := len(r.Body) + boundSlack + max(m.Calibration.OffsetUpper, 0)
	if files := r.Attachments; files > 0 {
		n += max(m.Images.Tokens(0, 0, "auto"), m.Images.Tokens(0, 0, "original"), FileTokens) * files
	}
	return n
}

// Allowed returns how many tokens may be added under a policy's contextTokens: at most a quarter
// of a known window.
func (m *Model) Allowed(contextTokens int) int {
	if quarter := m.Window / 4; m.Window > 0 && quarter < contextTokens {
		return quarter
	}
	return contextTokens
}

// defaultReserve is how many tokens are kept free for an answer if neither the request, the
// policy nor the model table gives a length.
const defaultReserve = 4096

// Reserved returns how many tokens of the window are kept free for the answers: the number of
// choices times the length of one. That length is the request's limit, else the policy's, else
// ReservedOutput. The product is capped because a header holds integers of at most 15 digits (RFC
// 9651).
func (m *Model) Reserved(r *chat.Request, policy int) int {
	one := cmp.Or(r.MaxTokens, policy, m.ReservedOutput())
	return min(one*max(r.Choices, 1), math.MaxInt32)
}

// ReservedOutput returns the tokens kept free for an answer whose length neither request nor
// policy limits: the model's usual length, and at most a quarter of its window.
func (m *Model) ReservedOutput() int {
	n := cmp.Or(m.DefaultOutput, defaultReserve)
	if m.MaxOutput > 0 {
		n = min(n, m.MaxOutput)
	}
	if m.Window > 0 {
		n = min(n, m.Window/4)
	}
	return n
}
