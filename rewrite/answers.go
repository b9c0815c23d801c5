package rewrite

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
)

// answers is what a request says of the length of its answers.
type answers struct {
	tokens  int // of one answer at most: the larger of max_completion_tokens and max_tokens; 0: not said
	choices int // n, or best_of where that is more; 0: not said
}

// defaultReserve is what is kept free for an answer where nobody says how long
// it may be, in tokens (PRODUCT.md §3).
const defaultReserve = 4096

// reserved returns the tokens of the window that are kept free for the answers: n
// times the cap of one. Without a cap one is the policy's, or else the model's
// usual length and no more than a quarter of its window. What is more than any window
// has is cut: a header holds integers of 15 digits (RFC 9651).
func (a answers) reserved(policy int, m *Model) int {
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
// neither request nor policy caps.
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

// wholeNumber returns the positive number that a JSON value is, in whatever way it
// is written; servers that are lenient take it quoted too. Of what is none it
// returns 0: the upstream will say so.
func wholeNumber(raw []byte) int {
	f, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if err != nil || f < 1 || f != math.Trunc(f) {
		return 0
	}
	return int(min(f, math.MaxInt32)) // two of them multiply without overflow
}
