package rewrite

import "sidenote/rewrite/cost"

// A Window says how a model's window is divided for one request, in tokens:
//
//	request + reserved output + what is added ≤ size
//
// Only what is added shrinks; the client's messages are never changed.
type Window struct {
	Size           int          `json:"size"` // 0 is unknown
	Check          WindowCheck  `json:"check"`
	ReservedOutput int          `json:"reserved_output_tokens"`
	Request        int          `json:"request"`              // the request as it came; under CheckBound it may be less
	Cost           *cost.Tokens `json:"components,omitempty"` // its components as counted
	Reserve        int          `json:"reserve"`              // part of Request: the reserve for errors of formulas
	Room           int          `json:"room"`                 // left for what is added; negative if the request alone is too long
	Limits         bool         `json:"limits"`               // the window, not the policy, limits what is added
}

// A WindowCheck says how the request's size was found.
type WindowCheck string

// The checks.
const (
	CheckNone    WindowCheck = "none"    // nothing was to be added
	CheckUnknown WindowCheck = "unknown" // the window's size is unknown: only context_tokens limits
	CheckBound   WindowCheck = "bound"   // the request fits even if each of its bytes is a token
	CheckCount   WindowCheck = "count"   // the whole request was counted
)

// boundSlack is added to the bytes of a request for the tokens that chat templates put
// around messages; those are mostly fewer than the bytes of the JSON around them.
const boundSlack = 512

// measureWindow finds out how much of the window the request leaves. A token has at least one
// byte, so a short request is bounded by its length and not counted. What an upstream
// bills beyond the request, such as a prompt of its own, has no bytes in it and is
// added from the calibration.
func (j *job) measureWindow() {
	m := &j.model
	w := Window{Size: m.Window, Check: CheckUnknown, ReservedOutput: reserved(j.req, j.policy.ReserveOutputTokens, m)}
	if m.Window > 0 {
		w.Check = CheckBound
		w.Request = j.requestBound()
	}
	if j.policy.CountWhole || m.Window > 0 && w.Request+w.ReservedOutput+j.allowed() > m.Window {
		c := j.messages.Count(m.counting(), m.Window)
		if m.Window > 0 {
			w.Check = CheckCount
		}
		w.Cost, w.Reserve = &c, m.reserve(c)
		w.Request = m.billed(c.Sum()) + w.Reserve
	}
	if m.Window > 0 {
		w.Room = m.Window - w.Request - w.ReservedOutput
		w.Limits = w.Room < j.allowed()
	}
	j.window = w
}

// requestBound returns what the request is billed for at most, by its length.
func (j *job) requestBound() int {
	m := &j.model
	n := len(j.req.Body) + boundSlack + max(m.Calibration.OffsetUpper, 0)
	if files := j.req.Attachments; files > 0 {
		n += max(m.Images.Tokens(0, 0, "auto"), m.Images.Tokens(0, 0, "original"), cost.FileTokens) * files
	}
	return n
}

// allowed returns how many tokens the policy allows to add, at most a quarter of a
// known window.
func (j *job) allowed() int {
	if quarter := j.model.Window / 4; j.model.Window > 0 && quarter < j.policy.ContextTokens {
		return quarter
	}
	return j.policy.ContextTokens
}

// budget returns how many tokens may be added.
func (j *job) budget() int {
	if j.window.Limits {
		return max(j.window.Room, 0)
	}
	return j.allowed()
}

// noRoom returns why nothing could be added.
func (j *job) noRoom() Reason {
	if j.window.Limits {
		return ReasonWindow
	}
	return ReasonBudget
}
