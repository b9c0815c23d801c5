package rewrite

import (
	"cmp"
	"math"
)

// defaultReserve is how many tokens are kept free for an answer if neither the request,
// the policy nor the model table gives a length.
const defaultReserve = 4096

// reserved returns how many tokens of the window are kept free for the answers: the
// number of choices times the length of one. That length is the request's limit, else
// the policy's, else ReservedOutput. The product is capped because a header holds
// integers of 15 digits at most (RFC 9651).
func reserved(r *Request, policy int, m *Model) int {
	one := cmp.Or(r.MaxTokens, policy, ReservedOutput(*m))
	return min(one*max(r.Choices, 1), math.MaxInt32)
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
