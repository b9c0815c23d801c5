package rewrite

import (
	"math"

	"sidenote/retrieval"
	"sidenote/rewrite/calibration"
	"sidenote/rewrite/tokens"
)

// A Model is what the rewrite needs to know of a model.
type Model struct {
	Row           string // matched row of the model table, "other" when none: the metric label
	Encoding      string // "o200k_base"
	Window        int    // tokens; 0 is unknown
	MaxOutput     int    // tokens of one answer at most; 0 is unknown
	DefaultOutput int    // tokens to reserve for one whose length nobody says; 0 is no opinion
	Estimated     bool   // no public tokenizer: counts carry a margin
	NoSystem      bool   // messages of the role system are refused
	Counter       retrieval.Counter
	Images        tokens.ImageRule
	Calibration   calibration.Value // what the upstream was seen to bill; zero while too little was
}

// ratio is how many tokens are billed at most for one that is counted: 1 where the
// encoding is the model's own.
func (m Model) ratio() float64 {
	switch {
	case !m.Estimated:
		return 1
	case m.Calibration.RatioUpper > 0:
		return m.Calibration.RatioUpper
	}
	return tokens.Margin
}

// rounding is more than what a product of a count and a ratio is off by.
const rounding = 1e-6

// billed returns what counted tokens may be billed as.
func (m Model) billed(n int) int { return int(math.Ceil(float64(n)*m.ratio() - rounding)) }

// counted returns how many tokens may be counted for n billed ones.
func (m Model) counted(n int) int { return int(math.Floor(float64(n)/m.ratio() + rounding/2)) }

// Reserves for what formulas miss: OpenAI's for tools are known to be off by a few
// tokens, more with every schema.
const (
	formulaReserve = 16
	formulaShare   = 20 // one token more for that many by formulas
)

// reserve is what a cost may be larger than counted: what the upstream was seen to
// bill beyond it, which of estimates the ratio tells, and an allowance where there are
// formulas in it. What was seen may be requests without any, so it stands for none.
func (m Model) reserve(c Cost) int {
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
