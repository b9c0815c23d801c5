package answer

// An Outcome says how far an upstream call got.
type Outcome int

// The outcomes.
const (
	OutcomeNotSent   Outcome = iota // nothing of the request can have reached the upstream
	OutcomeUnknown                  // no answer, but the upstream may have worked on one: a timeout, a reset
	OutcomeLeft                     // the client left before the answer began, and the upstream request was cancelled
	OutcomeRefused                  // the upstream answered with an error
	OutcomeCut                      // the answer began but did not end: the client left, or the upstream broke off
	OutcomeCompleted                // the answer is complete
)

// OutcomeOf returns the outcome of an answer with that status. Status 504, and 524 from Cloudflare,
// is unknown: a gateway that timed out does not know whether its upstream worked.
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

// A SettlementBasis says what a settled usage is based on. It has a closed set of values, so it can
// be a metrics label.
type SettlementBasis string

// The bases.
const (
	SettledAsReported  SettlementBasis = "told"      // reported by the upstream, and plausible
	SettledAsCounted   SettlementBasis = "counted"   // our count of the text received, and of the prompt if the upstream does not report it
	SettledAsEstimated SettlementBasis = "estimated" // our count of the prompt, and the longest answer that it allows
	SettledAsNothing   SettlementBasis = "nothing"   // nothing was generated
)

// hiddenPrompt is how many tokens upstreams may add to a prompt, such as 346 for tools (Anthropic).
// For small prompts that is more than twice our count.
const hiddenPrompt = 512

// A Settlement is what is known about a call that has ended.
type Settlement struct {
	Outcome  Outcome
	Reported Usage
	Found    UsageFinding
	// Prompt is our token count of the request as sent. Longest is the maximum for all of its
	// answers together, 0 if unknown.
	Prompt, Longest int64
	// HasExternalContent reports that the request refers to content outside of it, such as files or
	// an earlier answer, so that Prompt is not a bound.
	HasExternalContent bool
	// Counted is our count of the text received. It is used only if NeedsText returns true.
	Counted CountedUsage
}

// NeedsText reports whether Settle uses Counted.
func (s Settlement) NeedsText() bool {
	ended := s.Outcome == OutcomeCompleted || s.Outcome == OutcomeCut
	return ended && !(s.Outcome == OutcomeCompleted && s.Reported.Known && s.plausible())
}

// Settle returns the usage that a call is charged, by the rules of FAULTS.md §2, and what it is
// based on. implausible reports that the upstream's numbers cannot be true and our own count was
// used.
func (s Settlement) Settle() (u Usage, by SettlementBasis, implausible bool) {
	prompt := Usage{Input: s.Prompt}
	if s.Found == UsagePartial && s.plausibleInput() {
		prompt = s.Reported
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
	implausible = s.Reported.Known && !s.plausible()
	if s.Reported.Known && !implausible && s.Outcome == OutcomeCompleted {
		return s.Reported, SettledAsReported, false
	}
	counted := s.Counted
	switch {
	case s.Reported.Known && !implausible: // a stream with usage in each event that was cut short
		u = s.Reported
		u.Output = max(u.Output, counted.Output)
		return u, SettledAsReported, false
	case s.Found == UsageUpstreamFailed && counted.Known && counted.Output == 0:
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

// plausible reports whether the upstream's numbers are at most twice our own where those are a
// bound. An input of 0 is not plausible, because something was sent.
func (s Settlement) plausible() bool {
	return s.plausibleInput() && (s.Longest == 0 || s.Reported.Output <= 2*s.Longest)
}

func (s Settlement) plausibleInput() bool {
	in := s.Reported.Input
	return (in > 0 || s.Prompt == 0) && (in <= 2*s.Prompt+hiddenPrompt || s.HasExternalContent)
}
