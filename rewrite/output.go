package rewrite

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
)

// outputLimits holds how long a request lets its answers be.
type outputLimits struct {
	tokens  int // limit of one answer: the larger of max_completion_tokens and max_tokens; 0 if not given
	choices int // n, or best_of if larger; 0 if not given
}

// defaultReserve is how many tokens are kept free for an answer if neither the request,
// the policy nor the model table gives a length.
const defaultReserve = 4096

// reserved returns how many tokens of the window are kept free for the answers: the
// number of choices times the length of one. That length is the request's limit, else
// the policy's, else ReservedOutput. The product is capped because a header holds
// integers of 15 digits at most (RFC 9651).
func (a outputLimits) reserved(policy int, m *Model) int {
	one := a.tokens
	switch {
	case one > 0:
	case policy > 0:
		one = policy
	default:
		one = ReservedOutput(*m)
	}
	return min(one*max(a.choices, 1), math.MaxInt32)
}

// ReservedOutput returns the tokens that are kept free for an answer whose length
// neither request nor policy limits: the model's usual length, and at most a quarter of
// its window.
func ReservedOutput(m Model) int {
	n := cmp.Or(m.DefaultOutput, defaultReserve)
	if m.MaxOutput > 0 {
		n = min(n, m.MaxOutput)
	}
	if m.Window > 0 {
		n = min(n, m.Window/4)
	}
	return n
}

// wholeNumber reads a JSON number in any notation, also in quotes, which lenient
// servers accept. It returns 0 for anything but a positive whole number; the upstream
// will refuse that itself.
func wholeNumber(raw []byte) int {
	f, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if err != nil || f < 1 || f != math.Trunc(f) {
		return 0
	}
	return int(min(f, math.MaxInt32)) // the product of two of them fits an int
}
