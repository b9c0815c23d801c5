package rewrite

// A Window is the account of a model's window for one request, in tokens:
//
//	request + reserved output + what is added ≤ size
//
// What is added yields; the client's messages are never touched.
type Window struct {
	Size           int         `json:"size"` // 0 is unknown
	Check          WindowCheck `json:"check"`
	ReservedOutput int         `json:"reserved_output_tokens"`
	Request        int         `json:"request"`              // as it came; under CheckBound it may be less
	Cost           *Cost       `json:"components,omitempty"` // its components as counted
	Reserve        int         `json:"reserve"`              // of Request: for what formulas miss
	Room           int         `json:"room"`                 // left for what is added; negative: the request is too long as it came
	Limits         bool        `json:"limits"`               // Room is less than the budget of the policy
}

// A WindowCheck says how it was found out what a request leaves of the window.
type WindowCheck string

// The checks.
const (
	CheckNone    WindowCheck = "none"    // nothing was to be added
	CheckUnknown WindowCheck = "unknown" // the window is: only context_tokens holds
	CheckBound   WindowCheck = "bound"   // it fits even if each of its bytes is a token
	CheckCount   WindowCheck = "count"   // all of it was counted
)

// boundSlack is what may come to a request beside its bytes: what chat templates
// put around messages is mostly shorter than the JSON around them.
const boundSlack = 512

// look finds out what the request leaves of the model's window. As a token has at
// least one byte, a request that is short enough need not be counted; what the
// upstream bills beyond it, such as a prompt of its own, has no bytes in it.
func (j *job) look() {
	m := &j.model
	w := Window{Size: m.Window, Check: CheckUnknown, ReservedOutput: j.req.answers.reserved(j.policy.ReserveOutputTokens, m)}
	if m.Window > 0 {
		w.Check = CheckBound
		w.Request = len(j.req.Body) + boundSlack + max(m.Calibration.OffsetUpper, 0)
		if n := j.req.attachments; n > 0 {
			w.Request += max(m.Images.Tokens(0, 0, "auto"), m.Images.Tokens(0, 0, "original"), fileTokens) * n
		}
	}
	if j.policy.CountWhole || m.Window > 0 && w.Request+w.ReservedOutput+j.allowed() > m.Window {
		weigher := j.costs.weigher(m)
		weigher.limit = m.Window
		w.count(weigher.cost(j.req), m)
	}
	if m.Window > 0 {
		w.Room = m.Window - w.Request - w.ReservedOutput
		w.Limits = w.Room < j.allowed()
	}
	j.window = w
}

// count replaces the bound by a count.
func (w *Window) count(c Cost, m *Model) {
	if m.Window > 0 {
		w.Check = CheckCount
	}
	w.Cost, w.Reserve = &c, m.reserve(c)
	w.Request = m.billed(c.sum()) + w.Reserve
}

// allowed is what the policy allows to add: its tokens, and no more than a quarter
// of a known window.
func (j *job) allowed() int {
	if quarter := j.model.Window / 4; j.model.Window > 0 && quarter < j.policy.ContextTokens {
		return quarter
	}
	return j.policy.ContextTokens
}

// budget is what may be added.
func (j *job) budget() int {
	if j.window.Limits {
		return max(j.window.Room, 0)
	}
	return j.allowed()
}

// noRoom is why nothing could be added.
func (j *job) noRoom() Reason {
	if j.window.Limits {
		return ReasonWindow
	}
	return ReasonBudget
}
