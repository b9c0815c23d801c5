package model

import (
	"cmp"
	"math"

	"sidenote/rewrite/chat"
)

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
	w := Window{Size: m.Window, Check: CheckUnknown, ReservedOutput: m.Reserved(r, l.ReserveOutput)}
	allowed := m.Allowed(l.ContextTokens)
	if m.Window > 0 {
		w.Check = CheckBound
		w.Request = m.Bound(r)
	}
	if l.CountWhole || m.Window > 0 && w.Request+w.ReservedOutput+allowed > m.Window {
		c := messages.Count(m.Counting(), m.Window)
		if m.Window > 0 {
			w.Check = CheckCount
		}
		w.Cost, w.Reserve = &c, m.Reserve(c)
		w.Request = m.Billed(c.Sum()) + w.Reserve
	}
	if m.Window > 0 {
		w.Room = m.Window - w.Request - w.ReservedOutput
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
