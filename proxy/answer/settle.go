package answer

// An Outcome says how far a call of an upstream came.
type Outcome int

// The outcomes.
const (
	OutcomeNotSent   Outcome = iota // nothing of the request can have reached the upstream
	OutcomeUnknown                  // it may have been answered, but no answer came: a timeout, a reset
	OutcomeLeft                     // the client left before the answer began; the upstream was cancelled
	OutcomeRefused                  // the upstream answered with an error
	OutcomeCut                      // the answer began and did not end: the client left, or the upstream broke off
	OutcomeCompleted                // the answer came whole
)

// OutcomeOf returns the outcome of an answer of that status, which came whole or not. A
// gateway that waited in vain does not know whether its upstream worked: 504, and 524 of
// Cloudflare.
func OutcomeOf(status int, whole bool) Outcome {
	switch {
	case status == 504 || status == 524:
		return OutcomeUnknown
	case status/100 != 2:
		return OutcomeRefused
	case whole:
		return OutcomeCompleted
	}
	return OutcomeCut
}

// A SettlementBasis says what a settled usage rests on. It is from a closed list and so can be a
// metrics label.
type SettlementBasis string

// The bases.
const (
	SettledAsReported  SettlementBasis = "told"      // the upstream told it, and it can be true
	SettledAsCounted   SettlementBasis = "counted"   // our count of the text that came, and of the prompt, if that is not told
	SettledAsEstimated SettlementBasis = "estimated" // our count of the prompt, and the longest answer it allows
	SettledAsNothing   SettlementBasis = "nothing"   // nothing was generated
)

// hiddenPrompt is how many tokens upstreams put before a prompt on their own, such as 346
// for tools (Anthropic). Of small prompts that is more than twice our count.
const hiddenPrompt = 512

// A Settlement is what is known when a call has ended.
type Settlement struct {
	Outcome Outcome
	Told    Usage
	Found   UsageFinding
	// Prompt is our count of the request as it was sent, in tokens; Longest what all of its
	// answers may have at most, 0 if that is not known.
	Prompt, Longest int64
	// Refers says that the request refers to what is not in it, such as files or an earlier
	// answer, so that Prompt bounds nothing.
	Refers bool
	// Counted is what the text that came counts; it is looked at where NeedsText says so.
	Counted CountedUsage
}

// NeedsText tells whether Settle looks at Counted.
func (s Settlement) NeedsText() bool {
	ended := s.Outcome == OutcomeCompleted || s.Outcome == OutcomeCut
	return ended && !(s.Outcome == OutcomeCompleted && s.Told.Known && s.plausible())
}

// Settle returns what a call is charged, by the rules of FAULTS.md §2, and what that rests
// on. implausible says that the upstream told more than can be true, and our own count was
// taken.
func (s Settlement) Settle() (u Usage, by SettlementBasis, implausible bool) {
	prompt := Usage{Input: s.Prompt}
	if s.Found == UsagePartial && s.plausibleInput() {
		prompt = s.Told
	}
	estimate := prompt
	estimate.Output = s.Longest
	switch s.Outcome {
	case OutcomeNotSent, OutcomeRefused:
		return Usage{}, SettledAsNothing, false
	case OutcomeUnknown:
		return estimate, SettledAsEstimated, false
	case OutcomeLeft:
		return prompt, SettledAsCounted, false
	}
	implausible = s.Told.Known && !s.plausible()
	if s.Told.Known && !implausible && s.Outcome == OutcomeCompleted {
		return s.Told, SettledAsReported, false
	}
	counted := s.Counted
	switch {
	case s.Told.Known && !implausible: // a stream that tells it with each event, and was cut
		u = s.Told
		u.Output = max(u.Output, counted.Output)
		return u, SettledAsReported, false
	case s.Found == OutcomeFailed && counted.Known && counted.Output == 0:
		return Usage{}, SettledAsNothing, false
	case !counted.Known:
		return estimate, SettledAsEstimated, implausible
	}
	if s.Longest > 0 {
		counted.Output = min(counted.Output, s.Longest)
	}
	prompt.Output = counted.Output
	return prompt, SettledAsCounted, implausible
}

// plausible tells whether the told numbers are at most twice our own, where those bound
// anything. An input of none is not: something was sent.
func (s Settlement) plausible() bool {
	return s.plausibleInput() && (s.Longest == 0 || s.Told.Output <= 2*s.Longest)
}

func (s Settlement) plausibleInput() bool {
	in := s.Told.Input
	return (in > 0 || s.Prompt == 0) && (in <= 2*s.Prompt+hiddenPrompt || s.Refers)
}
